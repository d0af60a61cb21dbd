package scheduler

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Partitions of others. A task that is stored here, in a partition that another process fires, is found there by
// its next scan, which may be half a window away. What is due before that is fired here: ownership only says who
// tries first, and two who try cost a refused write.
const (
	// guestsMax bounds the partitions of others of which tasks are fired here; those beyond it wait for their owners.
	guestsMax = 1024
	// guestDelay is how much later a task is fired here, so that an owner who has seen it is first. A wake-up then costs a read.
	guestDelay = 50 * time.Millisecond
	// guestIdleMax is how long a guest that has nothing to do stays, for the next task it is told of. It goes up to
	// guestRetireEvery later.
	guestIdleMax     = time.Minute
	guestRetireEvery = 30 * time.Second
)

// guest is a runner or a deliverer that only fires what it is told of.
type guest struct {
	runner    *runner // or
	deliverer *deliverer

	stop context.CancelFunc
	told atomic.Int64 // monotonic time of the last hint, as a time.Duration
}

func (g *guest) hint(now time.Duration, h hint) {
	g.told.Store(int64(now))
	if g.runner != nil {
		g.runner.hint(h.task, h.waiting)
	} else {
		g.deliverer.hint(h.task, h.waiting)
	}
}

// isIdle reports whether it has nothing to do, and was told of nothing for a while: what is under way is done since.
func (g *guest) isIdle(now time.Duration) bool {
	switch {
	case now-time.Duration(g.told.Load()) < guestIdleMax:
		return false
	case g.runner != nil:
		return g.runner.head.Load() == 0
	}
	return g.deliverer.head.Load() == 0 && g.deliverer.stuck.Load() == 0
}

// guests are those there are.
type guests struct {
	poke chan struct{} // holds one value when something is pending

	all atomic.Pointer[map[task.Partition]*guest] // replaced by Run and read by everyone

	mu      sync.Mutex // guards pending
	pending []hint     // of partitions that have no guest yet
}

func (g *guests) init() {
	g.poke = make(chan struct{}, 1)
	g.clear()
}

func (g *guests) clear() { g.all.Store(&map[task.Partition]*guest{}) }

// firesAlone reports whether a task of somebody else's partition may be due before its owner hears of it.
func (s *Scheduler) firesAlone(t *task.Task, at task.Instant) bool {
	return s.Guests && (t.State == task.Scheduled || t.State == task.RetriableFailure) && at <= s.Clock.Now().Add(s.Window/2)
}

// guest takes a hint about a partition that is not ours.
func (s *Scheduler) guest(h hint) {
	g := &s.guests
	if one := (*g.all.Load())[h.task.Partition]; one != nil {
		one.hint(clock.Mono(s.Clock), h)
		return
	}
	g.mu.Lock()
	if len(g.pending) < hintRowsMax {
		g.pending = append(g.pending, h)
	}
	g.mu.Unlock()
	select {
	case g.poke <- struct{}{}:
	default:
	}
}

// admit starts guests for what is pending. It is called by Run alone, as are dismiss and retire.
func (s *Scheduler) admit(ctx context.Context, group *sync.WaitGroup, since task.Instant) {
	g := &s.guests
	g.mu.Lock()
	pending := g.pending
	g.pending = nil
	g.mu.Unlock()
	all := maps.Clone(*g.all.Load())
	for i := range pending {
		if p := pending[i].task.Partition; all[p] == nil && len(all) < guestsMax {
			all[p] = s.newGuest(ctx, group, p, since)
		}
	}
	g.all.Store(&all)
	for _, h := range pending {
		if all[h.task.Partition] != nil {
			s.guest(h)
		}
	}
}

func (s *Scheduler) newGuest(ctx context.Context, group *sync.WaitGroup, p task.Partition, since task.Instant) *guest {
	ctx, stop := context.WithCancel(ctx)
	if s.Delivery != nil && s.Delivery.Is(p) {
		d := newDeliverer(s, p, partitionRowsMin)
		d.guest = true
		group.Go(func() { d.run(ctx) })
		return &guest{deliverer: d, stop: stop}
	}
	r := newRunner(s, p, since, partitionRowsMin)
	r.guest, r.recovered = true, true
	group.Go(func() { r.run(ctx) })
	return &guest{runner: r, stop: stop}
}

// dismiss stops the guests of partitions that are ours now.
func (s *Scheduler) dismiss() {
	s.leave(func(p task.Partition, _ *guest) bool { return s.Fires(p) })
}

// retire stops the guests that have nothing to do. What one of them is told of in that moment is found by the owner's next scan.
func (s *Scheduler) retire() {
	now := clock.Mono(s.Clock)
	s.leave(func(_ task.Partition, g *guest) bool { return g.isIdle(now) })
}

func (s *Scheduler) leave(goes func(task.Partition, *guest) bool) {
	all := maps.Clone(*s.guests.all.Load())
	maps.DeleteFunc(all, func(p task.Partition, g *guest) bool {
		if goes(p, g) {
			g.stop()
			return true
		}
		return false
	})
	s.guests.all.Store(&all)
}

// extend keeps the horizons of a guest where they are worth it: what lies behind them its owner hears of in time.
func extend(now task.Instant, window time.Duration, sets ...*lookahead) {
	for _, l := range sets {
		l.truncated = false
		l.reach(now.Add(window))
	}
}
