package sdk

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

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
	Asked, Covered                     time.Duration // a young server has not seen it all
	Started, Failed                    float64       // first starts and failed attempts a second
	Ended                              map[State]float64
	Lateness50, Lateness95, Lateness99 time.Duration // of first starts
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
	Unowned                      int // partitions whose owner does not handle them
	StoreFull, StoreDamaged      bool
	NotReady                     string // why new work should go to another server; empty: it need not
}

// Overview returns what the first page of the console shows. Where reads of the store cost money, each call
// reads as Stats does, and counts what will be due every ten minutes at most.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	r, err := callSet(ctx, c, "overview", c.backend.tasks.Stats, &kinesinv1.StatsRequest{Overview: true})
	if err != nil {
		return Overview{}, err
	}
	w := r.GetOverview()
	o := Overview{Lambdas: make([]LambdaStats, len(r.GetLambdas())), DueAt: timeOf(w.GetDueAt())}
	for i, l := range r.GetLambdas() {
		o.Lambdas[i] = lambdaStatsOf(l)
	}
	for _, v := range w.GetWindows() {
		window := OverviewWindow{
			Asked: task.Micros(v.GetAsked()), Covered: task.Micros(v.GetCovered()), Started: v.GetStartedPerSecond(), Failed: v.GetFailedPerSecond(),
			Ended:      make(map[State]float64, len(v.GetEndedPerSecond())),
			Lateness50: task.Micros(v.GetLatenessP50()), Lateness95: task.Micros(v.GetLatenessP95()), Lateness99: task.Micros(v.GetLatenessP99()),
		}
		for state, n := range v.GetEndedPerSecond() {
			window.Ended[State(state)] = n
		}
		o.Windows = append(o.Windows, window)
	}
	for _, d := range w.GetDue() {
		o.Due = append(o.Due, DueSoon{Within: task.Micros(d.GetWithin()), Tasks: d.GetTasks(), AtLeast: d.GetAtLeast(), Error: d.GetError()})
	}
	if i := w.GetInstallation(); i != nil {
		o.Installation = &Installation{
			Workers: int(i.GetWorkers()), Servers: int(i.GetServers()), Partitions: int(i.GetPartitions()), Unowned: int(i.GetUnownedPartitions()),
			StoreFull: i.GetStoreFull(), StoreDamaged: i.GetStoreDamaged(), NotReady: i.GetNotReady(),
		}
	}
	return o, nil
}
