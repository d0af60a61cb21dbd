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
	// removeMin is how many rows are removed at once, as many as a request of DynamoDB takes.
	removeMin = 25
	// removeTogether says how long fewer wait for more, in multiples of Together. If the process is killed
	// meanwhile, their tasks are sent again.
	removeTogether = 2
)

// removals are the delivered tasks of all calls whose rows are to be removed. They wait for each other,
// because most of what a removal costs is its request.
type removals struct {
	mu      sync.Mutex // guards what follows
	waiting []*parcel
	timed   bool          // those that wait are removed in time
	last    time.Duration // monotonic: when fewer than removeMin were removed
}

// remove has the rows of tasks that are on their queues removed, together with those of others. Those that
// come after a quiet time are removed at once, so that a lone task reads as delivered when its consumer has
// it.
func (c *Courier) remove(sent []*parcel) {
	if len(sent) == 0 {
		return
	}
	r := &c.removals
	r.mu.Lock()
	r.waiting = append(r.waiting, sent...)
	n := len(r.waiting) / removeMin * removeMin
	if now := clock.Mono(c.Clock); !r.timed && now-r.last >= removeTogether*c.Together {
		n, r.last = len(r.waiting), now
	}
	now := r.waiting[:n:n]
	r.waiting = slices.Clone(r.waiting[n:])
	if !r.timed && len(r.waiting) > 0 {
		r.timed = true
		go c.removeLater()
	}
	r.mu.Unlock()
	c.removeRows(now)
}

// removeLater removes the rows of those that wait by then.
func (c *Courier) removeLater() {
	_ = clock.Sleep(context.Background(), c.Clock, removeTogether*c.Together)
	r := &c.removals
	r.mu.Lock()
	all := r.waiting
	r.waiting, r.timed, r.last = nil, false, clock.Mono(c.Clock)
	r.mu.Unlock()
	c.removeRows(all)
}

// removeRows ends the rows of tasks that are on their queues: wake-up rows go, and task rows, which keep a
// key taken, become delivered. A row that another process has by now is of a task that is done. These writes
// are durable: what they forget in a crash is sent twice.
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
			payloads = append(payloads, store.ForgetPayload(t))
		}
	}
	c.removePayloads(ctx, payloads)
	for _, p := range removed {
		p.close(nil)
	}
}

// removal is the writes that end a delivered task.
func (c *Courier) removal(o *task.Order) ([]store.Op, error) {
	if o.First {
		return []store.Op{store.RemoveDelivered(&o.Task)}, nil
	}
	policy, known := c.Policies.PolicyOf(&o.Task)
	if !known {
		return nil, fmt.Errorf("task %s: its lambda is not known here", o.Task.ID)
	}
	next, _, err := o.Task.Apply(task.Event{Kind: task.HandOver}, c.Clock.Now(), policy)
	return store.Change(next, false, true), err
}

// removePayloads deletes the payloads of rows that are gone, where they do not go by themselves. One that is
// forgotten in a crash is of no task.
func (c *Courier) removePayloads(ctx context.Context, ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	if _, err := c.Store.Apply(ctx, ops); err != nil && ctx.Err() == nil {
		c.Log.WarnContext(ctx, "payloads of delivered tasks not deleted", slog.Int("payloads", len(ops)), slog.Any("error", err))
	}
}
