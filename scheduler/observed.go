package scheduler

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// observer notes in the store's health how calls end.
type observer struct {
	clock  clock.Clock
	health *storeHealth
}

// observe notes that a call begins, and by the returned func how it ended.
func (o observer) observe(write bool, err *error) func() {
	o.health.began(clock.Steady(o.clock), write)
	return func() { o.health.ended(clock.Steady(o.clock), write, *err) }
}

// observedStore observes each read.
type observedStore struct {
	Store
	observer
}

// Tasks implements Store, as do the other methods.
func (o observedStore) Tasks(ctx context.Context, ids []task.ID) (rows []task.Task, err error) {
	defer o.observe(false, &err)()
	return o.Store.Tasks(ctx, ids)
}

func (o observedStore) Wakeups(ctx context.Context, keys []store.WakeKey) (rows []task.Task, err error) {
	defer o.observe(false, &err)()
	return o.Store.Wakeups(ctx, keys)
}

func (o observedStore) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) (rows []task.Task, err error) {
	defer o.observe(false, &err)()
	return o.Store.ScanSchedule(ctx, p, after, through, limit)
}

// observedLeases observes each call, and remembers the leases that hold.
type observedLeases struct {
	Leases
	observer

	valid *validLeases
}

// Look implements Leases, as does MarkLost.
func (o observedLeases) Look(ctx context.Context, worker string) (l lease.Lease, err error) {
	defer o.observe(false, &err)()
	if l, err = o.Leases.Look(ctx, worker); err == nil {
		o.valid.note(&l)
	}
	return l, err
}

func (o observedLeases) MarkLost(ctx context.Context, seen lease.Lease) (err error) {
	defer o.observe(true, &err)()
	ctx, done := withWriteTimeout(ctx, o.clock)
	defer done()
	return o.Leases.MarkLost(ctx, seen)
}

// observedDispatcher observes each dispatch, and ends dispatches and sends that hang.
type observedDispatcher struct {
	Dispatcher
	observer
}

// Dispatch implements Dispatcher, as does Send.
func (o observedDispatcher) Dispatch(ctx context.Context, orders []task.Order) (results []task.Dispatched) {
	var unanswered error
	defer o.observe(true, &unanswered)()
	ctx, done := withWriteTimeout(ctx, o.clock)
	defer done()
	results = o.Dispatcher.Dispatch(ctx, orders)
	for i := range results {
		if err := results[i].Err; errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnreachable) {
			unanswered = err
			break
		}
	}
	return results
}

// Send sends messages. A task whose message is not sent in time waits for its enqueue timeout.
func (o observedDispatcher) Send(ctx context.Context, tasks []task.Task) {
	ctx, done := withWriteTimeout(ctx, o.clock)
	defer done()
	o.Dispatcher.Send(ctx, tasks)
}

const (
	// writeTimeout is how long a loop waits for a write, with all retries of the driver and the messages that
	// follow. Tasks that are given up then are found again in the store.
	writeTimeout = 30 * time.Second
	// writeTimeoutSteps is in how many steps that time is counted.
	writeTimeoutSteps = 6
)

// withWriteTimeout ends a context after writeTimeout. A clock that jumps far ahead counts as one step only,
// since the store had no time to answer.
func withWriteTimeout(ctx context.Context, c clock.Clock) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for range writeTimeoutSteps {
			if clock.Sleep(ctx, c, writeTimeout/writeTimeoutSteps) != nil {
				return
			}
		}
		cancel(context.DeadlineExceeded)
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-stopped
	}
}

// validLeasesMax bounds the leases that are remembered; one that is forgotten costs a read.
const validLeasesMax = 1 << 14

// validLeases remembers until when leases hold at least, for all partitions of a process: a lease that one of
// them has read the others need not read. It never says that a lease is over.
type validLeases struct {
	mu    sync.Mutex
	until map[string]tick
}

func (h *validLeases) note(l *lease.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.Lost {
		delete(h.until, l.Worker)
		return
	}
	if h.until == nil {
		h.until = map[string]tick{}
	}
	if _, found := h.until[l.Worker]; !found && len(h.until) >= validLeasesMax {
		for worker := range h.until { // any will do
			delete(h.until, worker)
			break
		}
	}
	h.until[l.Worker] = tick(l.HoldsUntil().Add(task.ClockBound))
}

// end returns until when a lease holds at least; zero when nothing is known of it.
func (h *validLeases) end(worker string) tick {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until[worker]
}
