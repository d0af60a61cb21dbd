package sdk

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// LambdaStats is what lives of a lambda, and what the server that answers saw of it in the last minute. Where
// several servers share a store, rates and lateness are those of one of them.
type LambdaStats struct {
	Lambda     string
	Tasks      map[State]int64 // live tasks; states without any are left out
	Exact      bool            // Tasks was counted, not estimated
	OldestDue  time.Time       // due time of the task that has waited longest for its first start; zero: none waits
	Started    float64         // first starts a second; of ModeDeliver deliveries
	Ended      float64         // ends a second
	Failed     float64         // attempts a second that failed
	Throttled  float64         // tasks a second that admission quotas refused
	Lateness50 time.Duration   // of first starts: half of them were no later
	Lateness99 time.Duration   // 99 of 100 were no later
	DeadHour   int64           // tasks that died since the beginning of the hour before this one, on all servers
	DeadDay    int64           // the same of the last day, from the beginning of its first hour
	HeldBy     []WaitsFor      // what holds waiting tasks back, as far as the server that answers knows

	// The fields below are set by GetLambdaLive alone.

	Priorities []PriorityStats // highest first
	Workers    int             // worker processes with a lease for the lambda, of all servers; -1: not known
	Due        int64           // tasks that may start and have not; -1: not counted
	DueExact   bool            // Due was counted, not estimated
}

// PriorityStats is what there is to say of one priority of a lambda.
type PriorityStats struct {
	Priority string
	Started  float64       // first starts a second
	Queued   int64         // tasks in its queue, for workers or consumers to take, about; -1: not known
	InFlight int64         // tasks that were taken from it and are not acknowledged, about
	Oldest   time.Duration // how long the oldest due one has been in the queue, about; zero: not known, or there is none
}

// Stats returns statistics of a lambda, or, with an empty name, of all that the caller may read.
func (c *Client) Stats(ctx context.Context, lambda string) ([]LambdaStats, error) {
	r, err := callSet(ctx, c, "stats", c.backend.tasks.Stats, &kinesinv1.StatsRequest{Lambda: lambda})
	if err != nil {
		return nil, err
	}
	return listOf(r.GetLambdas(), lambdaStatsOf), nil
}

// GetLambdaLive is GetLambda with live figures in LambdaInfo.Live; nil if the caller may not read the whole
// lambda, or the server is older. With count it also tells how many tasks are due, and the states of tasks
// where the store does not count these by itself: both take reading tasks, up to 20,000 rows where reads cost
// money.
func (c *Client) GetLambdaLive(ctx context.Context, name string, count bool) (LambdaInfo, error) {
	response, err := callSet(ctx, c, "get lambda", c.backend.lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: name, Live: true, Count: count})
	if err != nil {
		return LambdaInfo{}, err
	}
	info := lambdaInfoOf(response.Lambda)
	if live := response.GetLambda().GetLive(); live != nil {
		stats := lambdaStatsOf(live)
		info.Live = &stats
	}
	return info, nil
}

func lambdaStatsOf(w *kinesinv1.LambdaStats) LambdaStats {
	s := LambdaStats{
		Lambda: w.GetLambda(), Tasks: make(map[State]int64, len(w.GetTasks())), Exact: w.GetExact(), OldestDue: timeOf(w.GetOldestDue()),
		Started: w.GetStartedPerSecond(), Ended: w.GetEndedPerSecond(), Failed: w.GetFailedPerSecond(), Throttled: w.GetThrottledPerSecond(),
		Lateness50: task.Micros(w.GetLatenessP50()), Lateness99: task.Micros(w.GetLatenessP99()),
		DeadHour: w.GetDeadHour(), DeadDay: w.GetDeadDay(),
		Workers: int(orUnknown(w.Workers)), Due: orUnknown(w.Due), DueExact: w.GetDueExact(),
	}
	for state, n := range w.GetTasks() {
		s.Tasks[State(state)] = n
	}
	for _, h := range w.GetHeldBy() {
		s.HeldBy = append(s.HeldBy, WaitsFor{
			Reason: h.GetReason(), Text: h.GetText(), Tasks: orUnknown(h.Tasks), Priority: h.GetPriority(), Gate: h.GetGate(),
			Action: GateAction(h.GetAction()), Until: timeOf(h.GetUntil()), Rate: h.GetRate(), Used: h.GetUsed(), Concurrency: int(h.GetConcurrency()),
		})
	}
	for _, p := range w.GetPriorities() {
		s.Priorities = append(s.Priorities, PriorityStats{
			Priority: p.GetPriority(), Started: p.GetStartedPerSecond(), Queued: orUnknown(p.Queued), InFlight: p.GetInFlight(), Oldest: task.Micros(p.GetOldest()),
		})
	}
	return s
}

// orUnknown returns a number that may be absent; -1 if it is.
func orUnknown(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}
