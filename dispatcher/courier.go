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
)

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
	// Together is the most that a task is sent late so that it shares a request with others: most of what a
	// delivery costs is its requests. 0: each goes when it is due.
	Together time.Duration
}

// CourierHooks are told what happened. A nil hook is not called.
type CourierHooks struct {
	// Delivered: a task is on its lambda's queue, that long after its due time.
	Delivered func(t *task.Task, late time.Duration)
	// Undelivered: a task could not be put there and is tried again.
	Undelivered func(t *task.Task, err error)
}

// Courier puts the tasks of deliver lambdas on their lambdas' queues. It owns the order of the three steps of
// such a task's life after it was scheduled: acquire its row, send, remove the row. Dying between any two of
// them loses nothing: whoever finds the row sends again, so that a consumer gets each task at least once. It
// never decides when a task is due or whose it is. Concurrent calls share sends and removals. It is safe for
// concurrent use.
type Courier struct {
	CourierConfig

	removals removals

	mu       sync.Mutex // guards the outboxes
	outboxes map[task.Partition]*outbox
}

// NewCourier returns a Courier.
func NewCourier(c CourierConfig) *Courier {
	return &Courier{CourierConfig: c, outboxes: map[task.Partition]*outbox{}}
}

// Deliver carries out orders to acquire tasks: each is acquired, sent when it is due and not before, and then
// its row goes. It returns when all that is done, or ctx ends; that takes as long as the latest of them is
// still to wait. What it does not return is done, or pointless because somebody else moved the task.
func (c *Courier) Deliver(ctx context.Context, orders []task.Order) []task.Undelivered {
	r := &round{Courier: c, open: map[*parcel]struct{}{}, through: make(chan struct{}, 1)}
	sent, acquired := r.acquire(ctx, orders)
	go c.remove(r.opened(sent)) // a slow removal delays no send
	slices.SortStableFunc(acquired, func(a, b task.Order) int { return int(a.Task.Due - b.Task.Due) })
	for len(acquired) > 0 {
		n := chunkLen(acquired)
		c.post(r.pack(ctx, r.opened(acquired[:n])))
		acquired = acquired[n:]
		r.wait(ctx)
	}
	r.wait(ctx)
	return r.left
}

// acquire makes the rows ours. It returns the orders of those that are, and those whose tasks were sent
// before. The write may get lost in a crash: the row is then as it was, and the task is sent again as it
// would be otherwise.
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
		ops, of = append(ops, store.Acquire(next, o.First)), append(of, o)
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
			r.leave(of[k], fmt.Errorf("acquire task %s: %w", of[k].Task.ID, outcome))
		}
	}
	return sent, acquired
}

// isTheirs reports whether a write met a row that another process has acquired, or the row of a task with a
// key that was stored meanwhile, and leaves that to be looked at again.
func (r *round) isTheirs(o *task.Order, outcome error) bool {
	conflict, ok := errors.AsType[*store.ConflictError](outcome)
	if !ok || conflict.Task == nil {
		return false
	}
	met, keyed := conflict.Task, o.First && o.Task.Key != ""
	if met.State != task.Acquired && (!keyed || met.State.IsEnd() || met.WakeRow.At != o.Task.WakeRow.At) {
		return false
	}
	r.leave(&task.Order{Task: *met, First: o.First && !keyed, Event: o.Event}, nil)
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

// pack reads the payloads that are stored apart and returns the parcels that are ready to be sent.
func (r *round) pack(ctx context.Context, parcels []*parcel) (ready []*parcel) {
	errs := make([]error, len(parcels))
	var group errgroup.Group
	group.SetLimit(payloadReadsMax)
	for i, p := range parcels {
		if t := &p.order.Task; t.PayloadStoredApart() {
			group.Go(func() error {
				p.payload, errs[i] = r.Store.Payload(ctx, t.PayloadID())
				return nil
			})
		}
	}
	_ = group.Wait()
	for i, p := range parcels {
		if errs[i] != nil {
			p.close(fmt.Errorf("payload of task %s: %w", p.order.Task.ID, errs[i]))
			continue
		}
		ready = append(ready, p)
	}
	return ready
}
