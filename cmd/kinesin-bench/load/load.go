package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
)

// insertOnly measures accepting tasks.
func (r *run) insertOnly(ctx context.Context) (Report, error) {
	due := time.Now().Add(insertAhead).Truncate(time.Millisecond)
	for i := range r.seen.due {
		r.seen.due[i] = due.UnixMicro()
	}
	if err := r.insert(ctx); err != nil {
		return Report{}, err
	}
	return r.report(r.inserted), nil
}

// wall makes all tasks due at one instant, and waits until all have started.
func (r *run) wall(ctx context.Context) (phase, error) {
	due := r.firstDue()
	for i := range r.seen.due {
		r.seen.due[i] = due.UnixMicro()
	}
	return r.insertThenRun(ctx, due, 0)
}

// steady makes tasks due at random milliseconds.
func (r *run) steady(ctx context.Context) (phase, error) {
	due := r.firstDue()
	for i := range r.seen.due {
		r.seen.due[i] = due.Add(time.Duration(rand.Int64N(int64(r.Duration)))).Truncate(time.Millisecond).UnixMicro() //nolint:gosec // a load, no secret
	}
	return r.insertThenRun(ctx, due, r.Duration)
}

// firstDue returns a due time far enough ahead to insert all tasks before it.
func (r *run) firstDue() time.Time {
	ahead := r.Ahead
	if ahead == 0 {
		ahead = aheadBase + time.Duration(r.Tasks)*aheadPerTask
	}
	return time.Now().Add(ahead).Truncate(time.Millisecond)
}

// insertThenRun inserts all tasks, and measures from the first due time to the last start.
func (r *run) insertThenRun(ctx context.Context, first time.Time, length time.Duration) (phase, error) {
	if err := r.insert(ctx); err != nil {
		return phase{}, err
	}
	return r.awaitFrom(ctx, first, length)
}

// awaitFrom measures from the first due time to the last start.
func (r *run) awaitFrom(ctx context.Context, first time.Time, length time.Duration) (phase, error) {
	left := time.Until(first)
	if left < 0 {
		return phase{}, fmt.Errorf("inserting %d tasks took %v longer than there was time before they were due: choose a longer --ahead", r.Tasks, -left)
	}
	r.Progress.note("inserted %d tasks in %.1f s, the first is due in %.1f s", r.Tasks, r.inserted.seconds(), left.Seconds())
	if err := clock.Sleep(ctx, clock.Real(), left-time.Since(first.Add(-left))); err != nil {
		return phase{}, err
	}
	p, err := r.begin(ctx)
	if err != nil {
		return p, err
	}
	p.from = first
	return r.awaitAll(ctx, p, length)
}

// awaitAll waits for the last start, and a little longer for duplicates. Tasks that do not start are counted
// as lost, which is no error.
func (r *run) awaitAll(ctx context.Context, p phase, length time.Duration) (phase, error) {
	err := await(ctx, r.seen.all, length+patienceBase+time.Duration(r.Tasks)*patiencePerTask)
	if err != nil && !errors.Is(err, errPatience) {
		return p, err
	}
	if err := clock.Sleep(ctx, clock.Real(), settleFor/10); err != nil { // for the last results
		return p, err
	}
	if p, err = r.finish(ctx, p); err != nil {
		return p, err
	}
	p.to = time.UnixMicro(r.seen.last.Load())
	return p, clock.Sleep(ctx, clock.Real(), settleFor)
}

// immediate schedules one task after the other, each due at once.
func (r *run) immediate(ctx context.Context) (phase, error) {
	p, err := r.begin(ctx)
	if err != nil {
		return p, err
	}
	p.from = time.Now()
	for i := range r.Tasks {
		payload := payloads(1, r.PayloadBytes, func(int) uint64 { return uint64(i) })[0]
		idle := time.Duration(rand.Float64() * float64(r.IdleMax)) //nolint:gosec // a load, no secret
		if err := clock.Sleep(ctx, clock.Real(), idle); err != nil {
			return p, err
		}
		r.seen.due[i] = time.Now().UnixMicro()
		if _, err := r.Client.Schedule(ctx, sdk.Item{Lambda: r.Lambda, Payload: payload}); err != nil {
			return p, fmt.Errorf("task %d: %w", i, err)
		}
		r.accepted++
		if err := await(ctx, r.seen.each, patienceBase); err != nil && !errors.Is(err, errPatience) {
			return p, err
		}
	}
	p.to = time.Now()
	if p, err = r.finish(ctx, p); err != nil {
		return p, err
	}
	return p, clock.Sleep(ctx, clock.Real(), settleFor)
}

// insert schedules all tasks, in batches and several calls at a time.
func (r *run) insert(ctx context.Context) error {
	p, err := r.begin(ctx)
	if err != nil {
		return err
	}
	r.insertCalls = make([]int64, (r.Tasks+r.Batch-1)/r.Batch)
	p.from = time.Now()
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(callersMax)
	for from := 0; from < r.Tasks && groupCtx.Err() == nil; from += r.Batch {
		g.Go(func() error { return r.insertBatch(groupCtx, from, min(from+r.Batch, r.Tasks)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	p.to = time.Now()
	r.accepted = r.Tasks
	r.inserted, err = r.finish(ctx, p)
	return err
}

func (r *run) insertBatch(ctx context.Context, from, to int) error {
	items := make([]sdk.Item, to-from)
	for i, payload := range payloads(len(items), r.PayloadBytes, func(i int) uint64 { return r.numberOf(from + i) }) {
		due := r.seen.due[0]
		if n := r.numberOf(from + i); n != warmUpIndex {
			due = r.seen.due[n]
		}
		items[i] = sdk.Item{Lambda: r.lambdaOf(from + i), At: time.UnixMicro(due), Payload: payload, Tags: r.tagsOf(from + i)}
		if r.LimitKeys > 0 {
			items[i].LimitKey = keyOf((from + i) % r.LimitKeys)
		}
	}
	began := time.Now()
	results, err := r.Client.ScheduleMany(ctx, items)
	r.insertCalls[from/r.Batch] = time.Since(began).Microseconds()
	if r.ids != nil {
		for i := range results {
			r.ids[from+i] = results[i].ID
		}
	}
	return err
}
