package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// removeMin is how many rows are removed together, as many as a request of DynamoDB takes.
	removeMin = 25
	// removeTogether is for how many times Together the row of a task that was sent waits for others. A process that is
	// killed meanwhile leaves it to be sent again.
	removeTogether = 4
)

// removals are delivered tasks whose rows are to go, those of all calls.
type removals struct {
	mu      sync.Mutex // guards what follows
	parcels []*parcel
	since   task.Instant // when the first of them came
	waits   bool         // a goroutine removes them in time
}

// remove has the rows of tasks that are on their queues removed, together with those of others.
func (c *Courier) remove(sent []*parcel) {
	if len(sent) == 0 {
		return
	}
	all, wait := c.removals.add(sent, c.Clock.Now(), removeTogether*c.Together)
	if wait {
		go c.removeLater()
	}
	c.removeRows(all)
}

// add takes note of more. It returns those that are to be removed now, and whether somebody has to see to the rest.
func (r *removals) add(sent []*parcel, now task.Instant, patience time.Duration) (take []*parcel, wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.parcels) == 0 {
		r.since = now
	}
	r.parcels = append(r.parcels, sent...)
	n := len(r.parcels) / removeMin * removeMin
	if patience == 0 {
		n = len(r.parcels)
	}
	if n > 0 {
		r.since = now
	}
	take, r.parcels = r.parcels[:n:n], slices.Clone(r.parcels[n:])
	wait = len(r.parcels) > 0 && !r.waits
	r.waits = r.waits || wait
	return take, wait
}

// removeLater removes rows for which no company came in time.
func (c *Courier) removeLater() {
	for wait := removeTogether * c.Together; wait > 0; {
		_ = clock.Sleep(context.Background(), c.Clock, wait)
		var all []*parcel
		all, wait = c.removals.late(c.Clock.Now(), removeTogether*c.Together)
		c.removeRows(all)
	}
}

// late takes those that have waited long enough, or says for how long they have not. Without any it is over.
func (r *removals) late(now task.Instant, patience time.Duration) (take []*parcel, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait = r.since.Add(patience).Sub(now); len(r.parcels) > 0 && wait > 0 {
		return nil, min(wait, patience)
	}
	take, r.parcels, r.waits = r.parcels, nil, false
	return take, 0
}

// removeRows ends the rows of tasks that are on their queues: wake-up rows go, and task rows, which keep a key taken, become
// delivered. Who else has a row by now has a task that is done. These writes are durable: what they
// forget in a crash is sent twice.
func (c *Courier) removeRows(sent []*parcel) {
	ops := make([]store.Op, 0, 2*len(sent))
	at := make([]int, 0, len(sent)) // of each one's first write
	of := make([]*parcel, 0, len(sent))
	for _, p := range sent {
		removal, err := c.removal(&p.order)
		if err != nil {
			p.close(err)
			continue
		}
		at, of, ops = append(at, len(ops)), append(of, p), append(ops, removal...)
	}
	if len(ops) == 0 {
		return
	}
	ctx := context.Background() // several calls wait for it, each of which may give up by itself
	outcomes, err := c.Store.Apply(ctx, ops)
	var payloads []store.Op
	removed := make([]*parcel, 0, len(of))
	for k, p := range of {
		t := &p.order.Task
		outcome := err
		if at[k] < len(outcomes) {
			outcome = outcomes[at[k]]
		}
		if outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			p.close(fmt.Errorf("remove row of delivered task %s: %w", t.ID, outcome))
			continue
		}
		removed = append(removed, p)
		if p.order.First && t.PayloadStoredApart() && !c.Store.PayloadsExpire() {
			payloads = append(payloads, store.Op{Kind: store.DeletePayload, Lazy: true, Task: task.Task{ID: t.PayloadID()}})
		}
	}
	c.removePayloads(ctx, payloads)
	for _, p := range removed {
		p.close(nil)
	}
}

// removal is the writes that end a delivered task: of one that is a wake-up row alone, whoever has acquired that since
// acquired what is done, so its seq does not matter.
func (c *Courier) removal(o *task.Order) ([]store.Op, error) {
	if o.First {
		t := task.Task{ID: o.Task.ID, Partition: o.Task.Partition, WakeRow: task.WakeRow{At: o.Task.WakeRow.At}}
		return []store.Op{{Kind: store.DeleteWakeup, Task: t, Patient: true}}, nil
	}
	policy, known := c.Policies.PolicyOf(&o.Task)
	if !known {
		return nil, fmt.Errorf("task %s: its lambda is not known here", o.Task.ID)
	}
	next, _, err := o.Task.Apply(task.Event{Kind: task.HandOver}, c.Clock.Now(), policy)
	return store.Change(next, false, true), err
}

// removePayloads deletes the payloads of rows that are gone, where they do not go by themselves. One that is forgotten in a crash is of no task.
func (c *Courier) removePayloads(ctx context.Context, ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	if _, err := c.Store.Apply(ctx, ops); err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "payloads of delivered tasks not deleted", slog.Int("payloads", len(ops)), slog.Any("error", err))
	}
}
