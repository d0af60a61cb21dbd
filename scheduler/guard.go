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

// guardedStore tells the watchdog how the store's reads fare.
type guardedStore struct {
	Store

	s *Scheduler
}

// Tasks implements Store, as do the other methods.
func (g guardedStore) Tasks(ctx context.Context, ids []task.ID) (rows []task.Task, err error) {
	defer g.s.watchCall(false, &err)()
	return g.Store.Tasks(ctx, ids)
}

func (g guardedStore) Wakeups(ctx context.Context, keys []store.WakeKey) (rows []task.Task, err error) {
	defer g.s.watchCall(false, &err)()
	return g.Store.Wakeups(ctx, keys)
}

func (g guardedStore) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) (rows []task.Task, err error) {
	defer g.s.watchCall(false, &err)()
	return g.Store.ScanSchedule(ctx, p, after, through, limit)
}

// guardedLeases tells the watchdog how the calls of the book of leases fare, and remembers what they say.
type guardedLeases struct {
	Leases

	s *Scheduler
}

// Look implements Leases, as does MarkLost.
func (g guardedLeases) Look(ctx context.Context, worker string) (l lease.Lease, err error) {
	defer g.s.watchCall(false, &err)()
	if l, err = g.Leases.Look(ctx, worker); err == nil {
		g.s.leases.note(&l)
	}
	return l, err
}

func (g guardedLeases) MarkLost(ctx context.Context, seen lease.Lease) (err error) {
	defer g.s.watchCall(true, &err)()
	ctx, done := limited(ctx, g.s.Clock)
	defer done()
	return g.Leases.MarkLost(ctx, seen)
}

const (
	// writeMax is how long a loop waits for a write, with all that a driver tries to bring it about and the
	// messages that follow from it. What is given up then is found again in the store.
	writeMax = 30 * time.Second
	// writeSteps is in how many steps that time is counted.
	writeSteps = 6
)

// limited ends a context after writeMax. A clock that jumps far ahead takes one step of it: the store had no
// time to answer.
func limited(ctx context.Context, c clock.Clock) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.NewTimer(writeMax / writeSteps)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer timer.Stop()
		for range writeSteps {
			select {
			case <-timer.C():
				timer.Reset(writeMax / writeSteps)
			case <-ctx.Done():
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

// watchCall notes that a call begins; what it returns is to be deferred.
func (s *Scheduler) watchCall(write bool, err *error) func() {
	s.dog.began(clock.Steady(s.Clock), write)
	return func() { s.dog.ended(clock.Steady(s.Clock), write, *err) }
}

// watchWrites notes how a dispatch fared. Only what the store did not answer speaks of it.
func (s *Scheduler) watchWrites(dispatch func() []task.Dispatched) []task.Dispatched {
	s.dog.began(clock.Steady(s.Clock), true)
	results := dispatch()
	var unknown error
	for i := range results {
		err := results[i].Err
		if errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrUnreachable) {
			unknown = err
			break
		}
	}
	s.dog.ended(clock.Steady(s.Clock), true, unknown)
	return results
}

// goodLeasesMax bounds the leases that are remembered; one that is forgotten costs a read.
const goodLeasesMax = 1 << 14

// goodLeases remembers until when leases hold at least, for all partitions of a process: what one of them
// has read spares the others the reading. It only ever says that a lease is good.
type goodLeases struct {
	mu    sync.Mutex
	until map[string]task.Instant // by clock.Steady
}

func (g *goodLeases) note(l *lease.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.Lost {
		delete(g.until, l.Worker)
		return
	}
	if g.until == nil {
		g.until = map[string]task.Instant{}
	}
	if _, found := g.until[l.Worker]; !found && len(g.until) >= goodLeasesMax {
		for worker := range g.until { // any will do
			delete(g.until, worker)
			break
		}
	}
	g.until[l.Worker] = l.HoldsUntil().Add(task.ClockBound)
}

// end is until when a lease holds at least, by clock.Steady; zero for one of which nothing is known.
func (g *goodLeases) end(worker string) task.Instant {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.until[worker]
}
