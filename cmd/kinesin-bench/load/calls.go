package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

const (
	// queries is how often each query of Count is made.
	queries = 20
	// newestShown is how many of the newest tasks Count lists.
	newestShown = 50
	// newestExamined is how many rows a server may read for that, at most.
	newestExamined = 2_000_000
)

// Calls are equal calls that were made one after the other.
type Calls struct {
	Name  string  `json:"name"`
	Calls int     `json:"calls"`
	Rate  float64 `json:"rate"` // of Change tasks, of Count calls, per second
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	CPU   float64 `json:"server_cpu_seconds_per_1000"` // of Change for 1,000 tasks, of Count for 1,000 calls
}

// change inserts tasks that are due in a day, and changes all of them by their ids, in calls of a batch: moves, cancels,
// redrives and runs them.
func (r *run) change(ctx context.Context) (Report, error) {
	r.ids = make([]sdk.ID, r.Tasks)
	report, err := r.insertOnly(ctx)
	if err != nil {
		return report, err
	}
	changed := func(results []sdk.ChangeResult, err error) error {
		return joined(results, err, func(one *sdk.ChangeResult) error { return one.Err })
	}
	for _, act := range []struct {
		name string
		do   func(ids []sdk.ID) error
	}{
		{"reschedule", func(ids []sdk.ID) error { return changed(r.Client.Reschedule(ctx, ids, sdk.In(2*insertAhead))) }},
		{"cancel", func(ids []sdk.ID) error {
			results, err := r.Client.CancelMany(ctx, ids)
			return joined(results, err, func(one *sdk.CancelResult) error { return one.Err })
		}},
		{"redrive", func(ids []sdk.ID) error { return changed(r.Client.Redrive(ctx, ids)) }},
		{"run", func(ids []sdk.ID) error { return changed(r.Client.RunNow(ctx, ids)) }},
	} {
		parts := slices.Collect(slices.Chunk(r.ids, r.Batch))
		if err := r.call(ctx, &report, act.name, len(parts), r.Tasks, func(i int) error { return act.do(parts[i]) }); err != nil {
			return report, err
		}
	}
	return report, nil
}

// joined returns the error of a call with those of its results.
func joined[R any](results []R, err error, errOf func(*R) error) error {
	for i := range results {
		err = errors.Join(err, errOf(&results[i]))
	}
	return err
}

// count inserts tasks that are due in a day, and counts and lists them.
func (r *run) count(ctx context.Context) (Report, error) {
	report, err := r.insertOnly(ctx)
	if err != nil {
		return report, err
	}
	where := "lambda=" + r.Lambda
	count := func(where string) func(int) error {
		return func(int) error {
			c, err := r.Client.Count(ctx, where, false)
			if err == nil && c.Exact && c.Count != int64(r.Tasks) {
				err = fmt.Errorf("counted %d tasks, exactly; want %d", c.Count, r.Tasks)
			}
			return err
		}
	}
	for _, query := range []struct {
		name string
		do   func(int) error
	}{
		{"count", count(where)},
		{"count with state", count(where + " and state=scheduled")},
		{"newest", func(int) error {
			for _, err := range r.Client.List(ctx, sdk.ListQuery{Lambda: r.Lambda, Order: sdk.OrderNewest, Limit: newestShown, MaxExamined: newestExamined}) {
				if err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		if err := r.call(ctx, &report, query.name, queries, queries, query.do); err != nil {
			return report, err
		}
	}
	return report, nil
}

// call makes calls one after the other, of n things together, and adds them to a report, whose figures are those of the
// slowest calls.
func (r *run) call(ctx context.Context, report *Report, name string, calls, n int, do func(i int) error) error {
	p, err := r.begin(ctx)
	if err != nil {
		return err
	}
	p.from = time.Now()
	var took []int64
	for i := range calls {
		began := time.Now()
		if err := do(i); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		took = append(took, time.Since(began).Microseconds())
	}
	p.to = time.Now()
	if p, err = r.finish(ctx, p); err != nil {
		return err
	}
	slices.Sort(took)
	c := Calls{
		Name: name, Calls: calls, Rate: perSecond(n, p.seconds()), P50: percentile(took, .50), P99: percentile(took, .99),
		CPU: perThousand(p.server, n),
	}
	if report.Calls == nil || c.Rate < report.Rate {
		report.Seconds, report.Rate, report.CPUServer, report.CPUClient = p.seconds(), c.Rate, c.CPU, perThousand(p.client, n)
		report.CPU = report.CPUServer + report.CPUClient
		report.setPercentiles(took)
	}
	report.Calls = append(report.Calls, c)
	return nil
}
