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

// Partitions of others. A task that is stored here, in a partition that another process fires, is found there
// by its next scan, which may be half a window away. What is due before that is fired here: ownership only
// says who tries first, and two who try cost a refused write.
const (
	// guestsMax bounds the partitions of others of which tasks are fired here; those beyond it wait for their
	// owners.
	guestsMax = 1024
	// guestDelay is how much later a task is fired here, so that an owner who has seen it is first. A wake-up
	// then costs a read.
	guestDelay = 50 * time.Millisecond
	// guestIdleMax is how long a guest that has nothing to do stays, for the next task it is told of. It goes
	// up to guestRetireEvery later.
	guestIdleMax     = time.Minute
	guestRetireEvery = 30 * time.Second
)

// guest is a loop that only fires what it is told of.
type guest struct {
	loop *loop
	told atomic.Int64 // monotonic time of the last hint, as a time.Duration
}

func (g *guest) hint(now time.Duration, t *task.Task, kind hintKind) {
	g.told.Store(int64(now))
	g.loop.hint(t, kind)
}

// isIdle reports whether it has nothing to do, and was told of nothing for a while: what is under way is done
// since.
func (g *guest) isIdle(now time.Duration) bool {
	return now-time.Duration(g.told.Load()) >= guestIdleMax && g.loop.isIdle()
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
func (s *Scheduler) guest(t *task.Task, kind hintKind) {
	g := &s.guests
	if one := (*g.all.Load())[t.Partition]; one != nil {
		one.hint(clock.Mono(s.Clock), t, kind)
		return
	}
	g.mu.Lock()
	if len(g.pending) < hintRowsMax {
		g.pending = append(g.pending, hint{*t, kind})
	}
	g.mu.Unlock()
	wake(g.poke)
}

// takesGuest reports whether what is told of a partition that is not ours has a place here.
func (s *Scheduler) takesGuest(p task.Partition) bool {
	g := &s.guests
	all := *g.all.Load()
	if all[p] != nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(all)+len(g.pending) < guestsMax
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
			l := newGuestLoop(s, p, since)
			all[p] = &guest{loop: l}
			s.start(ctx, group, l)
		}
	}
	g.all.Store(&all)
	for i := range pending {
		if h := &pending[i]; all[h.task.Partition] != nil {
			s.guest(&h.task, h.kind)
		}
	}
}

// demote makes guests of what fires partitions that are taken over, for what they still know. Beyond
// guestsMax they just end, with their partitions.
func (s *Scheduler) demote(released []task.Partition) {
	if !s.Guests || len(released) == 0 {
		return
	}
	now := clock.Mono(s.Clock)
	all := maps.Clone(*s.guests.all.Load())
	for _, p := range released {
		l := s.loopOf(p)
		if l == nil || len(all) >= guestsMax {
			continue
		}
		l.demote()
		g := &guest{loop: l}
		g.told.Store(int64(now))
		all[p] = g
	}
	s.guests.all.Store(&all)
}

// isGuest reports whether what fired a partition stays as a guest.
func (s *Scheduler) isGuest(p task.Partition) bool { return (*s.guests.all.Load())[p] != nil }

// dismiss stops the guests of partitions that are ours now.
func (s *Scheduler) dismiss() {
	s.leave(func(p task.Partition, _ *guest) bool { return s.Fires(p) })
}

// retire stops the guests that have nothing to do. What one of them is told of in that moment is found by the
// owner's next scan.
func (s *Scheduler) retire() {
	now := clock.Mono(s.Clock)
	s.leave(func(_ task.Partition, g *guest) bool { return g.isIdle(now) })
}

func (s *Scheduler) leave(goes func(task.Partition, *guest) bool) {
	all := maps.Clone(*s.guests.all.Load())
	maps.DeleteFunc(all, func(p task.Partition, g *guest) bool {
		if goes(p, g) {
			g.loop.stop()
			return true
		}
		return false
	})
	s.guests.all.Store(&all)
}
