package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of a Deliverer.
const (
	// payloadBytesMax bounds the separately stored payloads that one call holds.
	payloadBytesMax = 8 << 20
	// payloadReadsMax is how many of them are read at a time.
	payloadReadsMax = 16
)

// Deliver acquires the tasks of orders, sends each when it is due and not before, and deletes their rows. It
// returns when all that is done, or ctx ends; that takes until the last of them is due. An order that it does
// not return is done, or pointless because somebody else moved the task.
func (d *Deliverer) Deliver(ctx context.Context, orders []task.Order) []task.Undelivered {
	c := &deliverCall{Deliverer: d}
	sent, acquired := c.acquire(ctx, orders)
	undeleted := c.open(sent)
	d.deleteRows(undeleted)
	slices.SortStableFunc(acquired, func(a, b task.Order) int { return int(a.Task.Due - b.Task.Due) })
	for len(acquired) > 0 {
		n := payloadsThatFit(acquired)
		deliveries := c.open(acquired[:n])
		d.post(c.readPayloads(ctx, deliveries))
		acquired = acquired[n:]
		wait(ctx, deliveries)
	}
	wait(ctx, undeleted)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// acquire makes the rows this process's own. It returns the orders whose tasks were sent before, and those
// that are acquired now. The write may get lost in a crash: the row is then as it was, and the task is sent
// as it would be otherwise.
func (c *deliverCall) acquire(ctx context.Context, orders []task.Order) (sent, acquired []task.Order) {
	now := c.Clock.Now()
	ops := make([]store.Op, 0, len(orders))
	of := make([]*task.Order, 0, len(orders))
	for i := range orders {
		o := &orders[i]
		if o.Sent {
			sent = append(sent, *o)
			continue
		}
		next, _, err := o.Task.Apply(o.Event, now, task.Policy{})
		if err != nil {
			continue // the task moved on, so the order is pointless
		}
		ops, of = append(ops, store.Acquire(next, o.First)), append(of, o)
	}
	if len(ops) == 0 {
		return sent, nil
	}
	for k, outcome := range store.Outcomes(ctx, c.Store, ops) {
		switch {
		case outcome == nil:
			acquired = append(acquired, task.Order{Task: ops[k].Task, First: ops[k].Kind == store.ReplaceWakeup, Event: of[k].Event})
		case c.isAcquiredByOther(of[k], outcome):
		case !errors.Is(outcome, store.ErrConflict):
			c.leave(of[k], fmt.Errorf("acquire task %s: %w", of[k].Task.ID, outcome))
		}
	}
	return sent, acquired
}

// isAcquiredByOther reports whether a write met a row that another process has acquired, or the row of a task
// with a key that was stored meanwhile. Such an order is left, to be checked again.
func (c *deliverCall) isAcquiredByOther(o *task.Order, outcome error) bool {
	conflict, ok := errors.AsType[*store.ConflictError](outcome)
	if !ok || conflict.Task == nil {
		return false
	}
	met, keyed := conflict.Task, o.First && o.Task.Key != ""
	if met.State != task.Acquired && (!keyed || met.State.IsEnd() || met.WakeRow.At != o.Task.WakeRow.At) {
		return false
	}
	c.leave(&task.Order{Task: *met, First: o.First && !keyed, Event: o.Event}, nil)
	return true
}

// payloadsThatFit returns how many of the first orders have payloads that may be held at a time.
func payloadsThatFit(orders []task.Order) int {
	size := 0
	for i := range orders {
		if orders[i].Task.PayloadStoredApart() {
			size += int(orders[i].Task.PayloadSize)
		}
		if i > 0 && size > payloadBytesMax {
			return i
		}
	}
	return len(orders)
}

// readPayloads reads the payloads that are stored apart, and returns the deliveries that can be sent.
func (c *deliverCall) readPayloads(ctx context.Context, deliveries []*delivery) (ready []*delivery) {
	errs := make([]error, len(deliveries))
	var group errgroup.Group
	group.SetLimit(payloadReadsMax)
	for i, d := range deliveries {
		if t := &d.order.Task; t.PayloadStoredApart() {
			group.Go(func() error {
				d.payload, errs[i] = c.Store.Payload(ctx, t.PayloadID())
				return nil
			})
		}
	}
	_ = group.Wait()
	for i, d := range deliveries {
		switch err := errs[i]; {
		case err == nil:
			ready = append(ready, d)
		case errors.Is(err, store.ErrNotFound):
			c.drop(ctx, d, store.PayloadMissing)
		case errors.Is(err, store.ErrCorrupt):
			c.drop(ctx, d, store.PayloadDamaged)
		default:
			d.close(fmt.Errorf("payload of task %s: %w", d.order.Task.ID, err))
		}
	}
	return ready
}

// drop ends an acquired task that no try could ever send. An error leaves its order, to be tried again.
func (c *deliverCall) drop(ctx context.Context, d *delivery, why string) {
	t := &d.order.Task
	l := c.Lambdas.ByRef(t.Partition.Lambda)
	if l == nil {
		d.close(unknownLambda(t))
		return
	}
	next, _, err := t.Apply(task.Event{Kind: task.Drop, Error: why}, c.Clock.Now(), l.PolicyFor(t))
	if err != nil {
		d.close(err)
		return
	}
	ops := store.Change(next, false, false)
	if d.order.First {
		ops = store.EndUndelivered(next, t)
	}
	outcomes := store.Outcomes(ctx, c.Store, ops)
	outcome := outcomes[0]
	if d.order.First && outcome == nil {
		outcome = outcomes[1] // without its row the task would read as delivered
	}
	switch {
	case errors.Is(outcome, store.ErrConflict): // another process has it
	case outcome != nil:
		d.close(fmt.Errorf("drop task %s, because %s: %w", t.ID, why, outcome))
		return
	default:
		c.Log.ErrorContext(ctx, "a task cannot be delivered and is dropped", slog.String("task_id", t.ID.String()), slog.String("reason", why))
		if c.Hooks.Dropped != nil {
			c.Hooks.Dropped(&next)
		}
	}
	d.close(nil)
}
