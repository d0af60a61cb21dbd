package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of the courier.
const (
	// payloadBytesMax bounds the payloads that one call holds which are stored apart from their rows.
	payloadBytesMax = 8 << 20
	// payloadReadsMax is how many of them are read at a time.
	payloadReadsMax = 16
	// removeMin is how many rows are removed together while a round goes on; the rest go at its end.
	removeMin = 25
	// freshFor is how long after it was acquired a task may still be sent. A process that was stopped for longer must
	// acquire it again, since another one may have done so.
	freshFor = task.AcquireTimeout / 2
)

// errStale keeps a task from being sent by a process that may have lost it meanwhile.
var errStale = errors.New("acquired too long ago to be sent")

// CourierStore is what the courier needs of a store.
type CourierStore interface {
	Store
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadsExpire() bool
}

// Deliveries is what the courier needs of a queue.
type Deliveries interface {
	Deliver(ctx context.Context, deliveries []queue.Delivery) []error
}

// Sealer makes public ids.
type Sealer interface{ Seal(t task.Token) string }

// CourierConfig is what a Courier is made of. Everything but Hooks, Ended and Together is required.
type CourierConfig struct {
	Store    CourierStore
	Queue    Deliveries
	Policies Policies
	Sealer   Sealer
	Clock    clock.Clock
	Log      *slog.Logger
	Hooks    CourierHooks
	Ended    func() // told when a task is on its lambda's queue; nil: nobody wants to know
	// Together is how late tasks may be sent so that they go with others. While more than one comes in that time, they go
	// at moments that are so far apart, those of all partitions together: every time that a process wakes up costs it
	// CPU, and every request more of it. 0: each goes when it is due.
	Together time.Duration
}

// CourierHooks are told what happened. A nil hook is not called.
type CourierHooks struct {
	// Delivered: a task is on its lambda's queue, that long after its due time.
	Delivered func(t *task.Task, late time.Duration)
	// Undelivered: a task could not be put there and is tried again.
	Undelivered func(t *task.Task, err error)
}

// Courier puts the tasks of deliver lambdas on their lambdas' queues. It owns the order of the three steps of such a
// task's life after it was scheduled: acquire its row, send, remove the row. Dying between any two of them loses nothing:
// whoever finds the row sends again, so that a consumer gets each task at least once. It never decides when a task is due
// or whose it is. It is safe for concurrent use and keeps no state.
type Courier struct {
	CourierConfig

	traffic traffic
}

// NewCourier returns a Courier.
func NewCourier(c CourierConfig) *Courier { return &Courier{CourierConfig: c} }

// Deliver carries out orders to acquire tasks: each is acquired, sent when it is due and not before, and then its
// row goes. It returns when all that is done, which takes as long as the latest of them is still to wait. What it does
// not return is done, or pointless because somebody else moved the task.
func (c *Courier) Deliver(ctx context.Context, orders []task.Order) []task.Undelivered {
	r := round{Courier: c}
	var under sync.WaitGroup // what is under way: a slow send delays no other
	sent, acquired := r.acquire(ctx, orders)
	under.Go(func() { r.gone(ctx, sent, removeMin) })
	slices.SortStableFunc(acquired, func(a, b task.Order) int { return int(a.Task.Due - b.Task.Due) })
	for len(acquired) > 0 {
		n := chunkLen(acquired)
		parcels := r.pack(ctx, acquired[:n])
		acquired = acquired[n:]
		for len(parcels) > 0 {
			n := r.waitForDue(ctx, parcels)
			due := parcels[:n]
			parcels = parcels[n:]
			under.Go(func() { r.gone(ctx, r.send(ctx, due), removeMin) })
		}
	}
	under.Wait()
	r.gone(ctx, nil, 1)
	return r.left
}

// round is one Deliver on its way.
type round struct {
	*Courier

	mu   sync.Mutex // guards what follows
	left []task.Undelivered
	sent []task.Order // whose rows are still to go
}

// gone takes note of tasks that are on their queues, and removes their rows when there are at least so many: most of what
// a removal costs is its request. A round is short, so that dying before it ends sends few of them again.
func (r *round) gone(ctx context.Context, sent []task.Order, least int) {
	r.mu.Lock()
	r.sent = append(r.sent, sent...)
	var take []task.Order
	if len(r.sent) >= least {
		take, r.sent = r.sent, nil
	}
	r.mu.Unlock()
	r.remove(ctx, take)
}

// leave notes what is not done.
func (r *round) leave(o *task.Order, acquired bool, err error) {
	r.mu.Lock()
	r.left = append(r.left, task.Undelivered{Order: *o, Acquired: acquired, Err: err})
	r.mu.Unlock()
	if acquired && !o.Sent && r.Hooks.Undelivered != nil {
		r.Hooks.Undelivered(&o.Task, err)
	}
}

// acquire makes the rows ours. It returns the orders of those that are, and those whose tasks were sent before. The
// write may get lost in a crash: the row is then as it was, and the task is sent again as it would be otherwise.
func (r *round) acquire(ctx context.Context, orders []task.Order) (sent, acquired []task.Order) {
	now := r.Clock.Now()
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
		op := store.Op{Kind: store.ReplaceTask, Task: next, Lazy: true}
		switch {
		case o.First && next.Key != "":
			op.Kind = store.PutTask
		case o.First:
			op.Kind = store.ReplaceWakeup
			op.Task.WakeRow.Seq = next.Seq
		}
		ops, of = append(ops, op), append(of, o)
	}
	if len(ops) == 0 {
		return sent, nil
	}
	outcomes, err := r.Store.Apply(ctx, ops)
	for k := range ops {
		outcome := err
		if k < len(outcomes) {
			outcome = outcomes[k]
		}
		switch {
		case outcome == nil:
			acquired = append(acquired, task.Order{Task: ops[k].Task, First: ops[k].Kind == store.ReplaceWakeup, Event: of[k].Event})
		case r.isTheirs(of[k], outcome):
		case !errors.Is(outcome, store.ErrConflict):
			r.leave(of[k], false, fmt.Errorf("acquire task %s: %w", of[k].Task.ID, outcome))
		}
	}
	return sent, acquired
}

// isTheirs reports whether a write met a row that another process has acquired, or the row of a task with a key that was stored
// meanwhile, and leaves that to be looked at again.
func (r *round) isTheirs(o *task.Order, outcome error) bool {
	conflict, ok := errors.AsType[*store.ConflictError](outcome)
	if !ok || conflict.Task == nil {
		return false
	}
	met, keyed := conflict.Task, o.First && o.Task.Key != ""
	if met.State != task.Acquired && (!keyed || met.State.IsEnd() || met.WakeRow.At != o.Task.WakeRow.At) {
		return false
	}
	r.leave(&task.Order{Task: *met, First: o.First && !keyed, Event: o.Event}, false, nil)
	return true
}

// chunkLen is how many of the first orders have payloads that may be held at a time.
func chunkLen(orders []task.Order) int {
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

// parcel is a task that is ready to be sent.
type parcel struct {
	order   task.Order
	payload []byte
}

// pack reads the payloads that are stored apart. A task whose payload cannot be read is left.
func (r *round) pack(ctx context.Context, orders []task.Order) []parcel {
	parcels := make([]parcel, len(orders))
	errs := make([]error, len(orders))
	var group errgroup.Group
	group.SetLimit(payloadReadsMax)
	for i := range orders {
		t := &orders[i].Task
		parcels[i] = parcel{orders[i], t.Payload}
		if t.PayloadStoredApart() {
			group.Go(func() error {
				parcels[i].payload, errs[i] = r.Store.Payload(ctx, t.PayloadID())
				return nil
			})
		}
	}
	_ = group.Wait()
	ready := parcels[:0]
	for i := range parcels {
		if errs[i] != nil {
			r.leave(&orders[i], true, fmt.Errorf("payload of task %s: %w", orders[i].Task.ID, errs[i]))
			continue
		}
		ready = append(ready, parcels[i])
	}
	return ready
}

// waitForDue waits until the first parcel is due, and is to be sent, and says how many are due by then. When ctx ends it
// says all: sending them comes to nothing.
func (r *round) waitForDue(ctx context.Context, parcels []parcel) int {
	at := r.traffic.sendAt(parcels[0].order.Task.Due, r.Together)
	now := r.Clock.Now()
	for now < at {
		if clock.Sleep(ctx, r.Clock, at.Sub(now)) != nil {
			return len(parcels)
		}
		now = r.Clock.Now()
	}
	n := dueBy(parcels, now)
	r.traffic.note(parcels[0].order.Task.Due, n)
	return n
}

// dueBy is how many of the parcels are due by then; at least the first.
func dueBy(parcels []parcel, by task.Instant) int {
	n := 1
	for n < len(parcels) && parcels[n].order.Task.Due <= by {
		n++
	}
	return n
}

// send puts parcels on their queues and returns the orders of those that are there.
func (r *round) send(ctx context.Context, parcels []parcel) (sent []task.Order) {
	now := r.Clock.Now()
	deliveries := make([]queue.Delivery, 0, len(parcels))
	of := make([]*task.Order, 0, len(parcels))
	for i := range parcels {
		o := &parcels[i].order
		switch {
		case ctx.Err() != nil:
			r.leave(o, true, context.Cause(ctx))
		case now.Sub(o.Task.ClaimedAt) >= freshFor:
			r.leave(o, true, errStale)
		default:
			id := r.Sealer.Seal(task.TokenOf(&o.Task))
			deliveries = append(deliveries, queue.Delivery{Task: o.Task, ID: id, Payload: parcels[i].payload})
			of = append(of, o)
		}
	}
	if len(deliveries) == 0 {
		return nil
	}
	results := r.Queue.Deliver(ctx, deliveries)
	now = r.Clock.Now()
	for k, err := range results {
		if err != nil {
			r.leave(of[k], true, fmt.Errorf("deliver task %s: %w", of[k].Task.ID, err))
			continue
		}
		of[k].Sent = true
		sent = append(sent, *of[k])
		if r.Hooks.Delivered != nil {
			r.Hooks.Delivered(&of[k].Task, now.Sub(of[k].Task.Due))
		}
	}
	if len(sent) > 0 && r.Ended != nil {
		r.Ended()
	}
	return sent
}

// remove ends the rows of tasks that are on their queues: wake-up rows go, and task rows, which keep a key taken, become
// delivered. Who else has a row by now has a task that is done. These writes are durable: what they
// forget in a crash is sent twice.
func (r *round) remove(ctx context.Context, sent []task.Order) {
	ops := make([]store.Op, 0, 2*len(sent))
	at := make([]int, 0, len(sent)) // of each one's first write
	of := make([]*task.Order, 0, len(sent))
	for i := range sent {
		removal, err := r.removal(&sent[i])
		if err != nil {
			r.leave(&sent[i], true, err)
			continue
		}
		at, of, ops = append(at, len(ops)), append(of, &sent[i]), append(ops, removal...)
	}
	if len(ops) == 0 {
		return
	}
	outcomes, err := r.Store.Apply(ctx, ops)
	var payloads []store.Op
	for k, o := range of {
		outcome := err
		if at[k] < len(outcomes) {
			outcome = outcomes[at[k]]
		}
		switch {
		case outcome != nil && !errors.Is(outcome, store.ErrConflict):
			r.leave(o, true, fmt.Errorf("remove row of delivered task %s: %w", o.Task.ID, outcome))
		case o.First && o.Task.PayloadStoredApart() && !r.Store.PayloadsExpire():
			payloads = append(payloads, store.Op{Kind: store.DeletePayload, Lazy: true, Task: task.Task{ID: o.Task.PayloadID()}})
		}
	}
	r.removePayloads(ctx, payloads)
}

// removal is the writes that end a delivered task: of one that is a wake-up row alone, whoever has acquired that since
// acquired what is done, so its seq does not matter.
func (r *round) removal(o *task.Order) ([]store.Op, error) {
	if o.First {
		t := task.Task{ID: o.Task.ID, Partition: o.Task.Partition, WakeRow: task.WakeRow{At: o.Task.WakeRow.At}}
		return []store.Op{{Kind: store.DeleteWakeup, Task: t, Patient: true}}, nil
	}
	policy, known := r.Policies.PolicyOf(&o.Task)
	if !known {
		return nil, fmt.Errorf("task %s: its lambda is not known here", o.Task.ID)
	}
	next, _, err := o.Task.Apply(task.Event{Kind: task.HandOver}, r.Clock.Now(), policy)
	return store.Change(next, false, true), err
}

// removePayloads deletes the payloads of rows that are gone, where they do not go by themselves. One that is forgotten in a crash is of no task.
func (r *round) removePayloads(ctx context.Context, ops []store.Op) {
	if len(ops) == 0 {
		return
	}
	if _, err := r.Store.Apply(ctx, ops); err != nil && ctx.Err() == nil {
		r.Log.WarnContext(ctx, "payloads of delivered tasks not deleted", slog.Int("payloads", len(ops)), slog.Any("error", err))
	}
}
