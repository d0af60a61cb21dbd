package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// jobLookEvery is how often a job is looked at while it runs.
const jobLookEvery = 200 * time.Millisecond

// spreadOver is over what time a job spreads the tasks, so long that hardly one is due while the benchmark
// runs, and shiftBy by how much another one moves them.
const (
	spreadOver = 5 * 365 * 24 * time.Hour
	shiftBy    = 24 * time.Hour
)

// SetChange is how one job changed all tasks of a run.
type SetChange struct {
	Action  admin.JobAction `json:"action"`
	Way     string          `json:"way,omitempty"` // of a reschedule: "spread" or "by"
	Tasks   int64           `json:"tasks"`         // changed
	Refused int64           `json:"refused"`
	Seconds float64         `json:"seconds"`
	Rate    float64         `json:"rate"` // tasks per second
	HeapMax float64         `json:"server_heap_max_mb"`
	CPU     float64         `json:"server_cpu_seconds_per_1000"` // with that of the other lambda's load
	// Others is how another lambda fared meanwhile; nil without such a load.
	Others *Others `json:"others,omitempty"`
}

// sets inserts tasks that are due in a day, counts them, and changes them all by one job after the other: two
// that move them, one that cancels them, and one that redrives them. Another lambda has a steady load
// meanwhile.
func (r *run) sets(ctx context.Context) (Report, error) {
	report, err := r.insertOnly(ctx)
	if err != nil {
		return report, err
	}
	filter := "lambda=" + r.Lambda
	began := time.Now()
	count, err := r.Client.Count(ctx, filter+" and due>+1h", true)
	if err != nil {
		return report, err
	}
	report.CountSeconds = time.Since(began).Seconds()
	if !count.Exact || count.Count != int64(r.Tasks) {
		return report, fmt.Errorf("counted %d tasks, exactly: %v; want %d", count.Count, count.Exact, r.Tasks)
	}
	others, stop, err := r.startOthers(ctx)
	if err != nil {
		return report, err
	}
	if report.OthersAlone, err = others.alone(ctx); err == nil {
		err = r.changeSets(ctx, others, &report)
	}
	return report, errors.Join(err, stop())
}

// changeSets runs the jobs.
func (r *run) changeSets(ctx context.Context, others *others, report *Report) error {
	filter := "lambda=" + r.Lambda
	for _, spec := range []admin.JobSpec{
		{Action: admin.JobReschedule, Where: filter, Spread: spreadOver},
		{Action: admin.JobReschedule, Where: filter, By: shiftBy},
		{Action: admin.JobCancel, Where: filter},
		{Action: admin.JobRedrive, Where: filter + " and state=cancelled"},
	} {
		from := time.Now()
		change, err := r.changeSet(ctx, spec)
		if err == nil {
			change.Others, err = others.between(ctx, from, time.Now(), report.OthersAlone)
		}
		if err != nil {
			return err
		}
		report.Sets = append(report.Sets, change)
	}
	return nil
}

// changeSet runs a job to its end.
func (r *run) changeSet(ctx context.Context, spec admin.JobSpec) (c SetChange, err error) {
	c.Action = spec.Action
	switch {
	case spec.Spread != 0:
		c.Way = "spread"
	case spec.By != 0:
		c.Way = "by"
	}
	used, err := r.begin(ctx)
	if err != nil {
		return c, err
	}
	j, err := admin.New(r.Client).Jobs.Create(ctx, spec)
	for err == nil && !j.State.IsEnd() {
		heap, heapErr := r.heap(ctx)
		c.HeapMax = max(c.HeapMax, heap/1e6)
		if err = errors.Join(heapErr, clock.Sleep(ctx, clock.Real(), jobLookEvery)); err == nil {
			j, err = admin.New(r.Client).Jobs.Get(ctx, j.ID)
		}
	}
	if err == nil {
		used, err = r.finish(ctx, used)
	}
	if err != nil {
		return c, fmt.Errorf("%s: %w", spec.Action, err)
	}
	if j.State != admin.JobDone {
		r.Progress.note("%s: the job is %s: %s", spec.Action, j.State, j.Problem)
	}
	for _, n := range j.Outcomes {
		c.Tasks += n
	}
	c.Refused = j.RefusedCount()
	c.Tasks -= c.Refused
	c.Seconds = j.Ended.Sub(j.Created).Seconds()
	c.Rate, c.CPU = perSecond(int(c.Tasks), c.Seconds), perThousand(used.server, max(int(c.Tasks), 1))
	return c, nil
}
