package intake

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// A task of a deliver lambda that is due soon goes directly to its lambda's queue, which delays it until
// then. It gets no row, and its id says so. Queues count whole seconds, so it is up to a second later than
// asked for.

// deliverWait bounds how long a call waits for the queue before it stores a task instead.
const deliverWait = 3 * time.Second

// checkDeliverable refuses what makes no sense for a task that Kinesin does not execute.
func (b *Batch) checkDeliverable(l *catalog.Entry, t *task.Task, item *kinesinv1.ScheduleItem) error {
	const why = "lambda %s is of mode deliver: its tasks are put on a queue and not executed by Kinesin, so %s; leave %s out"
	switch {
	case t.Overrides != (task.Overrides{}):
		return refusal.Invalid(why, l.Name, "max attempts, timeout and backoff do not apply", "them")
	case item.StartBefore != 0:
		return refusal.Invalid(why, l.Name, "nobody knows when they start, and start before does not apply", "it")
	}
	return b.Queue.CheckPayload(item.Payload)
}

// goesDirect reports whether a task needs no row. One with a key does: only a row keeps the key taken. And so
// does one that a gate or a quota may hold back, and one that is not due yet, where the queue is a FIFO queue,
// which delays no single message.
func (b *Batch) goesDirect(c *Incoming) bool {
	ahead := b.DeliverDirect
	if c.Lambda.FIFO {
		ahead = 0
	}
	return c.Lambda.Mode == task.Deliver && c.Task.Key == "" && b.DeliverDirect > 0 && c.requested <= b.Now.Add(ahead) &&
		!b.Starter.IsCounted(c.Lambda.Ref)
}

// SendDirect sends the tasks that need no row. One that the queue does not acknowledge in time gets a row; if
// the queue has it all the same, it is delivered twice.
func (b *Batch) SendDirect(ctx context.Context) {
	some := b.Select((*Incoming).IsDirect)
	if len(some) == 0 {
		return
	}
	within, cancel := clock.Within(ctx, b.Clock, deliverWait)
	defer cancel()
	now := b.Clock.Now()
	deliveries := make([]queue.Delivery, len(some))
	for k, c := range some {
		deliveries[k] = b.deliveryOf(c, now)
	}
	for k, err := range b.Queue.Deliver(within, deliveries) {
		c, d := some[k], &deliveries[k]
		if err != nil {
			row := *c.Task
			if !errors.Is(err, queue.ErrMissing) {
				row.Enqueued = now // the queue may have it, so that a cancel is too late
			}
			b.putWakeup(c, &row)
			continue
		}
		c.Task, c.ID = &d.Task, d.ID
		if c.Way == WayStore {
			c.Way = WayQueue
		}
		if b.Hooks.Delivered != nil {
			b.Hooks.Delivered(c.Task, b.Clock.Now().Add(d.Delay).Sub(c.Task.Due))
		}
	}
}

// deliveryOf returns the message of a task. It is due at the requested millisecond: a queue would make two
// seconds of a delay that was rounded up for a row. It keeps the id that was issued, or gets one that says
// where the task is.
func (b *Batch) deliveryOf(c *Incoming, now task.Instant) queue.Delivery {
	d := queue.Delivery{Task: *c.Task, ID: c.ID, Payload: c.Item.Payload, Delay: min(wholeSeconds(c.requested.Sub(now)), queue.DelayMax)}
	if c.requested > b.Now {
		d.Task.Due = task.FromMillis(c.requested.Millis())
	}
	if d.ID == "" {
		token := task.TokenOf(&d.Task)
		token.Direct = true
		d.ID = b.Sealer.Seal(token)
	}
	return d
}

// wholeSeconds rounds up, so that nothing is seen early.
func wholeSeconds(d time.Duration) time.Duration {
	return (max(0, d) + time.Second - 1).Truncate(time.Second)
}
