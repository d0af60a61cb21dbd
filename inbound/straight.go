package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A task of a deliver lambda that is due soon goes straight to its lambda's queue, which holds it back until
// then: nothing is stored of it, and its id says so. Queues count whole seconds, so it comes up to one later
// than it was asked for.

// DeliverDirectDefault is how soon a task must be due for that, which is as long as a queue can hold it.
const DeliverDirectDefault = queue.DelayMax

const (
	// deliverWait bounds how long a Schedule call waits for the queue before it stores a task instead.
	deliverWait = 3 * time.Second
	// acceptedWithin is how long after its id was made a task is in the buffer at the latest.
	acceptedWithin = 2 * time.Second
	// deliverClocksMax is how far the clock of another process may be off that takes tasks from the buffer.
	deliverClocksMax = time.Second
)

var errMayBeDelivered = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task is, or is about to be, on the queue of its lambda")

// checkDeliverable refuses what makes no sense for a task that Kinesin does not execute.
func (b *intake) checkDeliverable(l *catalog.Entry, t *task.Task, payload []byte) error {
	if t.Overrides != (task.Overrides{}) {
		return refusal.Invalid("lambda %s is of mode deliver: its tasks are put on a queue and not executed by Kinesin, "+
			"so max attempts, timeout and backoff do not apply; leave them out", l.Name)
	}
	return b.Queue.CheckPayload(payload)
}

// goesStraight reports whether a task needs no row. One with a key does, since only a row keeps the key
// taken.
func (b *intake) goesStraight(c *incoming) bool {
	return c.lambda.Mode == task.Deliver && c.task.Key == "" && b.DeliverDirect > 0 && c.wanted <= b.now.Add(b.DeliverDirect)
}

// isUndelivered reports whether a task is to go straight to its queue.
func (c *incoming) isUndelivered() bool { return c.isNew() && c.straight }

// deliver sends what goes straight to its queue. What the queue does not acknowledge in time gets a row like
// any other task; it may be there all the same, and then comes twice.
func (b *intake) deliver(ctx context.Context) {
	some := b.those((*incoming).isUndelivered)
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
			row := *c.task
			if !errors.Is(err, queue.ErrMissing) {
				row.Enqueued = now // it may be there, so that a cancel comes too late
			}
			b.put(c, store.First(row))
			continue
		}
		c.task, c.id = &d.Task, d.ID
		if c.way == WayStore {
			c.way = WayQueue
		}
		if b.Hooks.Delivered != nil {
			b.Hooks.Delivered(c.task, b.Clock.Now().Add(d.Delay).Sub(c.task.Due))
		}
	}
}

// deliveryOf is a task as its queue gets it: it is due when it was asked for, to the millisecond, since a
// queue would make two seconds of a delay that a row rounds up. It is known by the id that was issued, or by
// one that says where it is.
func (b *intake) deliveryOf(c *incoming, now task.Instant) queue.Delivery {
	d := queue.Delivery{Task: *c.task, ID: c.id, Payload: c.item.Payload, Delay: min(wholeSeconds(c.wanted.Sub(now)), queue.DelayMax)}
	if c.wanted > b.now {
		d.Task.Due = task.FromMillis(c.wanted.Millis())
	}
	if d.ID == "" {
		token := task.TokenOf(&d.Task)
		token.Direct = true
		d.ID = b.Sealer.Seal(token)
	}
	return d
}

// forgetCancelled drops tasks that were to go straight to their queue and were cancelled in the buffer: their
// tombstones are the only rows that they ever have.
func (b *intake) forgetCancelled(ctx context.Context) {
	b.readRows(ctx, b.those((*incoming).isUndelivered), func(c *incoming, row *task.Task) { c.known = !row.ID.IsZero() })
}

// wholeSeconds rounds up, so that nothing is seen early.
func wholeSeconds(d time.Duration) time.Duration {
	return (max(0, d) + time.Second - 1).Truncate(time.Second)
}

// unstored is what is known of a task that has no row: it is in the buffer, or on the queue of its deliver
// lambda. It is forgotten when the row that an ended task would have is. Where it is not known that it has
// left the buffer it has not: that it is delivered is the end, and nobody asks again.
func (in *Inbound) unstored(token task.Token) (task.Task, bool) {
	t := task.Task{ID: token.ID, Partition: token.Partition, Due: token.Due}
	l := in.Catalog.ByRef(token.Partition.Lambda)
	if l == nil || token.ID.IsDerived() {
		return task.Task{}, false
	}
	t.Created = madeAt(t.ID)
	now := in.Clock.Now()
	switch {
	case l.Mode == task.Deliver && now >= t.Due && (token.Direct || in.BufferPassed(t.Created.Add(acceptedWithin))):
		t.State = task.Delivered
		return t, now < max(t.Due, t.Created).Add(l.Retention)
	case token.Direct:
		t.State = task.Enqueued
		return t, true
	}
	t.State = task.Accepted
	return t, in.mayBeBuffered(token)
}

// mayBeDelivered reports whether a deliver task that has no row may be on its queue: it went there at once,
// or will from the buffer. No tombstone would stop it there.
func (in *Inbound) mayBeDelivered(l *catalog.Entry, token task.Token) bool {
	if l.Mode != task.Deliver {
		return false
	}
	window := time.Duration(0)
	if in.Buffering.Buffer != nil {
		window = max(in.DeliverDirect, in.Near, 0) + deliverClocksMax
	}
	return token.Direct || token.Due <= in.Clock.Now().Add(window)
}

// endDelivery goes on where the wake-up row of a task of a deliver lambda is gone, by the outcome of the put
// of its task row. Whoever dies between the two writes has cancelled it and told nobody. The look after that
// is for a row that came out of the buffer once more meanwhile.
func (in *Inbound) endDelivery(ctx context.Context, next *task.Task, put error) (outcome string, err error) {
	if put != nil && !errors.Is(put, store.ErrConflict) {
		return "", put
	}
	if in.Buffering.Buffer != nil {
		if err := in.removePutBack(ctx, next); err != nil {
			return "", err
		}
	}
	in.ended([]task.Task{*next})
	return cancelled, nil
}

// removePutBack deletes the wake-up row of a cancelled task that came out of the buffer, maybe once more,
// before there was a tombstone for the consumer to see. The scheduler would find that in its way and delete
// the row too; a courier would not look.
func (in *Inbound) removePutBack(ctx context.Context, t *task.Task) error {
	isDeliver := in.isDeliver(t.Partition.Lambda)
	rows, err := in.Store.Wakeups(ctx, []store.WakeKey{store.KeyOf(t)})
	switch {
	case err != nil && isDeliver:
		return errMayBeDelivered
	case err != nil:
		return fmt.Errorf("look for the wake-up row of task %s: %w", t.ID, err)
	case rows[0].ID.IsZero():
		return nil
	case !isDeliver:
		_ = in.change(ctx, []store.Op{store.Remove(&rows[0])})
		return nil
	case rows[0].State != task.Scheduled: // somebody sends it
		return errMayBeDelivered
	}
	if err := in.change(ctx, []store.Op{store.RemoveLast(&rows[0])})[0]; err != nil {
		return errMayBeDelivered
	}
	return nil
}

func (in *Inbound) isDeliver(ref uint32) bool {
	l := in.Catalog.ByRef(ref)
	return l != nil && l.Mode == task.Deliver
}
