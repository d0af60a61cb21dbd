package intake

import (
	"context"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Plan decides how a task is stored. requested is its due time before it was rounded up.
func (b *Batch) Plan(ctx context.Context, c *Incoming, l *catalog.Entry, t *task.Task, requested task.Instant) error {
	c.Lambda, c.Task, c.requested = l, t, requested
	if b.goesDirect(c) {
		c.direct = true
		return nil
	}
	if l.Mode == task.Managed && t.Due <= b.Now.Add(b.Near) {
		if started, err := b.start(ctx, c); started || err != nil {
			return err
		}
	}
	if t.Key != "" || c.WithRow {
		t.Wake = t.Due
		b.put(c, store.FirstWithRow(*t))
	} else {
		b.putWakeup(c, t)
	}
	return nil
}

// start plans the rows of a task that skips the schedule. It reports false for a task that does not: the
// scheduler also ends what comes out of the buffer too late.
func (b *Batch) start(ctx context.Context, c *Incoming) (started bool, err error) {
	s, next, err := b.round.Start(ctx, &task.Order{Task: *c.Task, First: true, Event: task.Event{Kind: task.Enqueue, By: b.Process}}, dispatcher.Near)
	if err != nil || s.Answer == dispatcher.NotHere {
		return false, err
	}
	c.start = s
	b.put(c, store.FirstWithRow(next))
	return true, nil
}
