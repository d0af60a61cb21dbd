package rest

import (
	"net/http"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

type statistics struct {
	Lambdas []lambdaStatistics `json:"lambdas"`
}

type lambdaStatistics struct {
	Lambda             string           `json:"lambda"`
	Tasks              map[string]int64 `json:"tasks,omitempty" jsonschema:"live tasks by state"`
	Exact              bool             `json:"exact" jsonschema:"the tasks were counted, not estimated"`
	OldestDue          moment           `json:"oldest_due,omitzero" jsonschema:"due time of the oldest task that is due and has not started"`
	StartedPerSecond   float64          `json:"started_per_second" jsonschema:"over the last minute, on the server that answers; so are the next five"`
	EndedPerSecond     float64          `json:"ended_per_second"`
	FailedPerSecond    float64          `json:"failed_per_second" jsonschema:"attempts"`
	ThrottledPerSecond float64          `json:"throttled_per_second" jsonschema:"tasks that admission quotas refused"`
	LatenessP50        duration         `json:"lateness_p50"`
	LatenessP99        duration         `json:"lateness_p99"`
	DeadHour           int64            `json:"dead_hour" jsonschema:"tasks that died since the beginning of the hour before this one, on all servers"`
	DeadDay            int64            `json:"dead_day" jsonschema:"the same of the last day, from the beginning of its first hour"`
	HeldBy             []heldByView     `json:"held_by,omitempty" jsonschema:"what holds waiting tasks back, as far as the server that answers knows"`

	Priorities []priorityStatistics `json:"priorities,omitempty" jsonschema:"highest first; this and what follows only where a lambda is read with live=true"`
	Workers    *int64               `json:"workers,omitempty" jsonschema:"worker processes with a lease for the lambda, of all servers; none: not known"`
	Due        *int64               `json:"due,omitempty" jsonschema:"tasks that may start and have not; only with count=true"`
	DueExact   bool                 `json:"due_exact,omitempty" jsonschema:"they were counted, not estimated"`
}

type heldByView struct {
	Reason   string  `json:"reason" jsonschema:"gate, quota, key, retry budget, no worker, queue full or busy workers; there will be others"`
	Text     string  `json:"text" jsonschema:"for people"`
	Tasks    *int64  `json:"tasks,omitempty" jsonschema:"about how many, of the partitions of the server that answers; none: not known"`
	Priority string  `json:"priority,omitempty" jsonschema:"none: of all priorities"`
	Gate     string  `json:"gate,omitempty" jsonschema:"its id"`
	Action   string  `json:"action,omitempty" jsonschema:"of a gate: pause or drop"`
	Until    moment  `json:"until,omitzero" jsonschema:"when it ends by itself"`
	Rate     float64 `json:"rate,omitempty" jsonschema:"of a quota: starts per second, of all servers together"`
	Used     float64 `json:"used,omitempty" jsonschema:"of a quota: starts per second in the last minute, on the server that answers"`

	Concurrency uint32 `json:"concurrency,omitempty" jsonschema:"of a quota: tasks that run at once, of all servers together"`
}

type priorityStatistics struct {
	Priority         string   `json:"priority"`
	StartedPerSecond float64  `json:"started_per_second"`
	Queued           *int64   `json:"queued,omitempty" jsonschema:"tasks in its queue, about; none: not known"`
	InFlight         int64    `json:"in_flight" jsonschema:"tasks that were taken from it and are not acknowledged, about"`
	Oldest           duration `json:"oldest,omitzero" jsonschema:"how long the oldest due one has been in the queue, about"`
}

func getStats(c *call, _ *none) (int, *statistics, error) {
	response, err := c.Tasks.Stats(c.r.Context(), &kinesinv1.StatsRequest{Lambda: c.query.Get("lambda")})
	return http.StatusOK, &statistics{Lambdas: viewsOf(response.GetLambdas(), lambdaStatisticsOf)}, err
}

func lambdaStatisticsOf(l *kinesinv1.LambdaStats) lambdaStatistics {
	s := lambdaStatistics{
		Lambda: l.GetLambda(), Tasks: l.GetTasks(), Exact: l.GetExact(), OldestDue: moment(l.GetOldestDue()),
		StartedPerSecond: l.GetStartedPerSecond(), EndedPerSecond: l.GetEndedPerSecond(),
		FailedPerSecond: l.GetFailedPerSecond(), ThrottledPerSecond: l.GetThrottledPerSecond(),
		LatenessP50: durationOf(l.GetLatenessP50()), LatenessP99: durationOf(l.GetLatenessP99()),
		DeadHour: l.GetDeadHour(), DeadDay: l.GetDeadDay(),
		Workers: l.Workers, Due: l.Due, DueExact: l.GetDueExact(),
	}
	for _, h := range l.GetHeldBy() {
		s.HeldBy = append(s.HeldBy, heldByView{
			Reason: h.GetReason(), Text: h.GetText(), Tasks: h.Tasks, Priority: h.GetPriority(), Gate: h.GetGate(), Action: h.GetAction(),
			Until: moment(h.GetUntil()), Rate: h.GetRate(), Used: h.GetUsed(), Concurrency: h.GetConcurrency(),
		})
	}
	for _, p := range l.GetPriorities() {
		s.Priorities = append(s.Priorities, priorityStatistics{
			Priority: p.GetPriority(), StartedPerSecond: p.GetStartedPerSecond(), Queued: p.Queued, InFlight: p.GetInFlight(), Oldest: durationOf(p.GetOldest()),
		})
	}
	return s
}
