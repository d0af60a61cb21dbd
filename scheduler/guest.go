package scheduler

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

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
)

// guests are runners and deliverers that only fire what they are told of.
type guests struct {
	poke chan struct{} // holds one value when something is pending

	// Both are replaced by Run and read by everyone.
	runners    atomic.Pointer[map[task.Partition]*runner]
	deliverers atomic.Pointer[map[task.Partition]*deliverer]

	mu      sync.Mutex // guards pending
	pending []hint     // of partitions that have no guest yet
}

func (g *guests) init() {
	g.poke = make(chan struct{}, 1)
	g.clear()
}

func (g *guests) clear() {
	g.runners.Store(&map[task.Partition]*runner{})
	g.deliverers.Store(&map[task.Partition]*deliverer{})
}

// firesAlone reports whether a task of somebody else's partition may be due before its owner hears of it.
func (s *Scheduler) firesAlone(t *task.Task, at task.Instant) bool {
	return s.Guests && (t.State == task.Scheduled || t.State == task.RetriableFailure) && at <= s.Clock.Now().Add(s.Window/2)
}

// guest takes a hint about a partition that is not ours.
func (s *Scheduler) guest(h hint) {
	g := &s.guests
	if r := (*g.runners.Load())[h.task.Partition]; r != nil {
		r.hint(h.task, h.waiting)
		return
	}
	if d := (*g.deliverers.Load())[h.task.Partition]; d != nil {
		d.hint(h.task, h.waiting)
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

// admit starts guests for what is pending. It is called by Run alone, as is dismiss.
func (s *Scheduler) admit(ctx context.Context, group *sync.WaitGroup, since task.Instant) {
	g := &s.guests
	g.mu.Lock()
	pending := g.pending
	g.pending = nil
	g.mu.Unlock()
	runners, deliverers := maps.Clone(*g.runners.Load()), maps.Clone(*g.deliverers.Load())
	for i := range pending {
		p := pending[i].task.Partition
		if runners[p] != nil || deliverers[p] != nil || len(runners)+len(deliverers) >= guestsMax {
			continue
		}
		ctx, stop := context.WithCancel(ctx)
		if s.Delivery != nil && s.Delivery.Is(p) {
			d := newDeliverer(s, p, partitionRowsMin)
			d.guest, d.stop = true, stop
			deliverers[p] = d
			group.Go(func() { d.run(ctx) })
			continue
		}
		r := newRunner(s, p, since, partitionRowsMin)
		r.guest, r.recovered, r.stop = true, true, stop
		runners[p] = r
		group.Go(func() { r.run(ctx) })
	}
	g.runners.Store(&runners)
	g.deliverers.Store(&deliverers)
	for _, h := range pending {
		if runners[h.task.Partition] != nil || deliverers[h.task.Partition] != nil {
			s.guest(h)
		}
	}
}

// dismiss stops the guests of partitions that are ours now.
func (s *Scheduler) dismiss() {
	g := &s.guests
	runners, deliverers := maps.Clone(*g.runners.Load()), maps.Clone(*g.deliverers.Load())
	for p := range *s.runners.Load() {
		if r := runners[p]; r != nil {
			r.stop()
			delete(runners, p)
		}
	}
	for p := range *s.deliverers.Load() {
		if d := deliverers[p]; d != nil {
			d.stop()
			delete(deliverers, p)
		}
	}
	g.runners.Store(&runners)
	g.deliverers.Store(&deliverers)
}

// extend keeps the horizons of a guest where they are worth it: what lies behind them its owner hears of in time.
func extend(now task.Instant, window time.Duration, sets ...*lookahead) {
	for _, l := range sets {
		l.truncated = false
		l.reach(now.Add(window))
	}
}
