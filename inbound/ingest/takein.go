package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// unknownTriesMax is how often a task of an unknown lambda is received before it is rejected: the lambda may
// be newer than the catalog.
const unknownTriesMax = 6

// takeIn stores arrivals, with a result for each.
func (in *Ingest) takeIn(ctx context.Context, arrivals []arrival) []result {
	if len(arrivals) == 0 {
		return nil
	}
	b, end := in.Begin(len(arrivals))
	defer end()
	refreshed := false
	for i := range arrivals {
		a, c := &arrivals[i], &b.Tasks[i]
		c.Item = a.Item
		if task.IsInboundToken(a.Id) {
			c.Way = intake.WayDirect
		}
		c.Err = in.admit(ctx, b, c, a)
		if errors.Is(c.Err, catalog.ErrUnknown) && a.tries >= unknownTriesMax && !refreshed {
			refreshed = true // before it is rejected
			if err := in.Catalog.Refresh(ctx); err != nil {
				c.Err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
				continue
			}
			c.Err = in.admit(ctx, b, c, a)
		}
	}
	in.settleDeleted(ctx, b, arrivals)
	acceptKnown(ctx, b)
	b.SendDirect(ctx)
	b.Write(ctx)
	in.removeOvertaken(ctx, b)
	b.Announce(ctx)
	return in.results(b, arrivals)
}

// results returns what became of arrivals.
func (in *Ingest) results(b *intake.Batch, arrivals []arrival) []result {
	all := make([]result, len(arrivals))
	n, age := 0, time.Duration(0)
	for i := range all {
		all[i] = resultOf(b.Tasks[i].Err, arrivals[i].manual || arrivals[i].tries >= unknownTriesMax)
		if all[i].outcome == stored {
			n++
			age = max(age, b.Now.Sub(task.Instant(arrivals[i].Accepted)))
			if c := &b.Tasks[i]; in.Hooks.Stored != nil && c.Task != nil && !c.Exists {
				in.Hooks.Stored(c.Task, c.Lambda)
			}
		}
	}
	if n > 0 && in.Hooks.Consumed != nil {
		in.Hooks.Consumed(n, age)
	}
	return all
}

// acceptKnown settles arrivals that get no row of their own and have a task row: deliver tasks that were
// cancelled in the buffer, whose tombstones are the only rows that they ever have; and those that seem stale
// though their rows are still kept.
func acceptKnown(ctx context.Context, b *intake.Batch) {
	some := b.Select(func(c *intake.Incoming) bool {
		_, isStale := errors.AsType[*staleError](c.Err)
		return isStale || c.IsDirect()
	})
	b.ReadRows(ctx, some, func(c *intake.Incoming, row *task.Task) {
		if !row.ID.IsZero() {
			c.Task, c.Err, c.Exists = row, nil, true
		}
	})
}

// removeOvertaken deletes wake-up rows that were put here and whose task has a task row that does not need
// them: it was cancelled while it was in the buffer, or came again after it was dispatched. A cancel puts the
// task row and then looks for a wake-up row; here it is the other way round, so that at least one of the two
// sees the other's. The wake-up row of a task in flight stays: it wakes the task.
func (in *Ingest) removeOvertaken(ctx context.Context, b *intake.Batch) {
	var removals []store.Op
	var of []*intake.Incoming
	var ended []task.Task
	bare := b.Select(func(c *intake.Incoming) bool { return c.Err == nil && c.OnlyWakeup() })
	b.ReadRows(ctx, bare, func(c *intake.Incoming, row *task.Task) {
		if row.ID.IsZero() {
			return
		}
		c.Task, c.Exists = row, true
		if put := c.Wakeup(); !row.IsBare() && !intake.Needs(row, put) { // a row that cannot be read is left as it is
			removals, of = append(removals, store.RemoveLast(put)), append(of, c)
		}
		if row.State.IsEnd() {
			ended = append(ended, *row)
		}
	})
	if len(removals) == 0 {
		return
	}
	for k, err := range store.Outcomes(ctx, b.Store, removals) {
		if !errors.Is(err, store.ErrConflict) {
			of[k].Err = err
		}
	}
	if len(ended) > 0 {
		in.Scheduler.Done(ended)
	}
}
