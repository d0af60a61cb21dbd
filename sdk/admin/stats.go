package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

// LambdaStats is what lives of a lambda, and what the server that answers saw of it in the last minute. Where
// several servers share a store, rates and lateness are those of one of them.
type LambdaStats struct {
	Lambda             string
	Tasks              map[sdk.State]int64 // live tasks; states without any are left out
	Exact              bool                // Tasks was counted, not estimated
	OldestDue          time.Time           // due time of the task that has waited longest for its first start; zero: none waits
	StartedPerSecond   float64             // first starts; of ModeDeliver deliveries
	EndedPerSecond     float64
	FailedPerSecond    float64       // attempts
	ThrottledPerSecond float64       // tasks that admission quotas refused
	LatenessP50        time.Duration // of first starts: half of them were no later
	LatenessP99        time.Duration // 99 of 100 were no later
	DeadHour           int64         // tasks that died since the beginning of the hour before this one, on all servers
	DeadDay            int64         // the same of the last day, from the beginning of its first hour
	HeldBy             []HeldBy      // what holds waiting tasks back, as far as the server that answers knows

	// The fields below are set by Lambdas.Live alone.

	Priorities []PriorityStats // highest first
	Workers    int             // worker processes with a lease for the lambda, of all servers; -1: not known
	Due        int64           // tasks that may start and have not; -1: not counted
	DueExact   bool            // Due was counted, not estimated
}

// PriorityStats is what there is to say of one priority of a lambda.
type PriorityStats struct {
	Priority         string
	StartedPerSecond float64       // first starts
	Queued           int64         // tasks in its queue, for workers or consumers to take, about; -1: not known
	InFlight         int64         // tasks that were taken from it and are not acknowledged, about
	Oldest           time.Duration // how long the oldest due one has been in the queue, about; zero: not known, or there is none
}

// HeldBy says what holds waiting tasks of a lambda back.
type HeldBy struct {
	Reason      string     // as of sdk.WaitsFor, or "busy workers" or "unexplained"; there will be others
	Text        string     // for people
	Tasks       int64      // about how many, of the partitions of the server that answers; -1: not known
	Priority    string     // empty: of all priorities
	Gate        string     // its id
	Action      GateAction // of the gate
	Until       time.Time  // when it ends by itself; zero: not known
	Rate        float64    // of a quota: starts per second, of all servers together
	Used        float64    // of a quota: starts per second, on the server that answers
	Concurrency int        // of a quota: how many tasks run at once, of all servers together
}

// Stats returns statistics of a lambda, or of all.
func (s Lambdas) Stats(ctx context.Context, lambda string) ([]LambdaStats, error) {
	r, err := callSet(ctx, s.c, "stats", s.c.Tasks.Stats, &kinesinv1.StatsRequest{Lambda: lambda})
	return wirecopy.All[LambdaStats](r.GetLambdas()), err
}

// Overview is the installation at a glance, as the server that answers sees it. Windows and Installation are
// left out for a caller who may not read the metrics of all lambdas, and all three by an older server.
type Overview struct {
	Lambdas      []LambdaStats    // that the caller may read
	Windows      []OverviewWindow // the last minute, hour and day
	Due          []DueSoon        // in 5 and 15 minutes, an hour and a day; none: not known for now
	DueAt        time.Time        // when Due was counted
	Installation *Installation
}

// OverviewWindow is what happened in a time until now.
type OverviewWindow struct {
	Asked, Covered                        time.Duration // a young server has not seen it all
	StartedPerSecond, FailedPerSecond     float64       // first starts and attempts
	EndedPerSecond                        map[sdk.State]float64
	LatenessP50, LatenessP95, LatenessP99 time.Duration // of first starts
}

// DueSoon is how many tasks will be due within a time.
type DueSoon struct {
	Within  time.Duration
	Tasks   int64
	AtLeast bool  // there may be more
	Error   int64 // of an estimate: 19 times of 20 it is off by no more; 0: counted
}

// Installation is what there is of an installation.
type Installation struct {
	Workers, Servers, Partitions int
	UnownedPartitions            int // partitions whose owner does not handle them
	StoreFull, StoreDamaged      bool
	NotReady                     string // why new work should go to another server; empty: it need not
}

// Overview returns what the first page of the console shows. Where reads of the store cost money, each call reads as
// Lambdas.Stats does, and counts what will be due every ten minutes at most.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	r, err := callSet(ctx, c.calls, "overview", c.calls.Tasks.Stats, &kinesinv1.StatsRequest{Overview: true})
	o := wirecopy.From[Overview](r.GetOverview())
	o.Lambdas = wirecopy.All[LambdaStats](r.GetLambdas())
	return o, err
}
