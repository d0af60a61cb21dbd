package scheduler

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/task"
)

// Scheduler runs one loop for each partition that it fires, except for idle ones where there are many.
type Scheduler struct {
	*shared

	fired      atomic.Pointer[map[task.Partition]*firedPartition] // replaced by Run and read by all
	idle       idlePartitions
	foreign    foreignLoops
	assignment atomic.Pointer[Assignment]  // replaced by Run
	progress   progress                    // of Run
	openings   map[task.Partition]*opening // of Run, by group
}

// New returns a scheduler that does nothing until Run.
func New(c Config) *Scheduler {
	s := &Scheduler{shared: newShared(c), openings: map[task.Partition]*opening{}}
	s.assignment.Store(&Assignment{})
	s.fired.Store(&map[task.Partition]*firedPartition{})
	s.idle.changed = make(chan struct{}, 1)
	return s
}

// loopGroup starts loops, and waits for them.
type loopGroup struct {
	sync.WaitGroup

	ctx   context.Context //nolint:containedctx // of Run, which starts the loops
	start task.Instant    // when Run began, by clock.Steady
}

func (g *loopGroup) run(l *loop) {
	var ctx context.Context
	ctx, l.stop = context.WithCancel(g.ctx)
	g.Go(func() { l.run(ctx) })
}

func newLoop(s *shared, p task.Partition, start task.Instant, rows int) *loop {
	wake := make(chan struct{}, 1)
	l := &loop{
		shared: s, partition: p, delivers: s.Delivery != nil && s.Delivery.Is(p), wake: wake,
		buffer: newBuffer(rows), inFlight: newInFlightSet(s.inFlightLimit), wall: newLoopClock(s.Clock, start),
		reader: scheduleReader{request: readRequest{wake: wake}, full: newFullScan(s.Clock.Uint64()), dueSoon: dueSoonCount{every: s.countsEvery()}},
	}
	l.inFlight.slots.waiter = quota.SlotWaiter{Class: p.Priority, Wake: func() { notify(wake) }}
	l.mode = &managedMode{loop: l}
	if l.delivers {
		l.mode = newDeliverMode(l)
	}
	return l
}

// startForeign starts the loop of a foreign partition.
func (s *Scheduler) startForeign(g *loopGroup, p task.Partition) *loop {
	l := newLoop(s.shared, p, g.start, partitionRowsMin)
	l.foreign = true
	g.run(l)
	return l
}

// setFired makes the partitions those that are fired here. Loops that are kept for foreign partitions go on.
func (s *Scheduler) setFired(fired []task.Partition, kept map[task.Partition]bool) {
	old := *s.fired.Load()
	next := make(map[task.Partition]*firedPartition, len(fired))
	var fresh []*firedPartition
	for _, p := range fired {
		one := old[p]
		if one == nil {
			one = &firedPartition{Partition: p}
			fresh = append(fresh, one)
		}
		next[p] = one
	}
	s.idle.mu.Lock()
	s.idle.rows = min(max(s.LookaheadRows/max(len(fired), 1), partitionRowsMin), partitionRowsMax)
	s.idle.mu.Unlock()
	s.fired.Store(&next) // before the first read, so that no hint falls in between
	for p, one := range old {
		if next[p] == nil {
			s.remove(one, kept[p])
		}
	}
	for _, one := range fresh {
		s.add(one)
	}
}

// Added is the hint that a wake-up row was stored. Hints may come from any goroutine, and for partitions of
// other processes; a hint of a task that is not due soon costs next to nothing.
func (s *Scheduler) Added(t *task.Task) {
	if p := s.firedOf(t.Partition); p != nil {
		s.tell(p, t, hintAdded, t.WakeRow.At, func(l *loop) bool { return l.buffer.covers(t.WakeRow.At) })
		return
	}
	if s.isDueBeforeOwnerReads(t, t.WakeRow.At) {
		s.foreign.hint(clock.Mono(s.Clock), t, hintAdded)
	}
}

// Awake is the hint that a stored task row has a wake-up that the scheduler should know: where its wake-up
// row is, or before that, if FiresWithin said so.
func (s *Scheduler) Awake(t *task.Task) {
	if p := s.firedOf(t.Partition); p != nil {
		at := t.Wake
		if t.Wake != t.WakeRow.At {
			at = 0 // only the loop knows of it
		}
		// A scan passes over the wake-up row of a task that an earlier hint has put in flight, so the loop is
		// told of what is due soon also where a read-ahead is still to come.
		s.tell(p, t, hintAwake, at, func(l *loop) bool { return at <= s.Clock.Now().Add(s.Window) || l.buffer.covers(at) })
		return
	}
	handedOver := t.Wake != t.WakeRow.At && s.foreign.has(t.Partition) // while the row was written
	if s.isLimited(t.Partition) {
		return // its owner alone starts it
	}
	if handedOver || s.isDueBeforeOwnerReads(t, t.Wake) {
		s.foreign.hint(clock.Mono(s.Clock), t, hintAwake)
	}
}

// isDueBeforeOwnerReads reports whether a task of a foreign partition may be due before its owner knows it.
func (s *Scheduler) isDueBeforeOwnerReads(t *task.Task, at task.Instant) bool {
	return s.Foreign && isWaiting(t) && at <= s.Clock.Now().Add(s.Window/2) && !s.isLimited(t.Partition)
}

// Enqueued is the hint that a task was stored as enqueued and its message is on its way.
func (s *Scheduler) Enqueued(t *task.Task) {
	if s.RetryBudget != nil {
		s.RetryBudget.Earn(t.Partition.Lambda, 1)
	}
	if p := s.firedOf(t.Partition); p != nil {
		s.tell(p, t, hintSent, 0, func(*loop) bool { return true })
	}
}

// PutBack is the hint that a claim met a task that a gate holds. hasRow says that its task row was stored as
// scheduled; otherwise it has none, and its message is gone.
func (s *Scheduler) PutBack(t *task.Task, hasRow bool) {
	kind := hintUnsent
	if hasRow {
		kind = hintPutBack
	}
	if p := s.firedOf(t.Partition); p != nil {
		s.tell(p, t, kind, 0, func(*loop) bool { return true })
	} else if s.Foreign && !s.isLimited(t.Partition) {
		s.foreign.hint(clock.Mono(s.Clock), t, kind)
	}
}

// watchGates wakes all loops when the gates change, until ctx ends.
func (s *Scheduler) watchGates(ctx context.Context) {
	for {
		changed := s.Gating.Gates.Changed()
		for _, l := range s.loops() {
			notify(l.wake)
		}
		s.foreign.wakeAll()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Done is the hint that tasks need not be checked any more where they are: they have ended, or another
// wake-up row wakes them.
func (s *Scheduler) Done(rows []task.Task) {
	for i := range rows {
		if l := s.loopOf(rows[i].Partition); l != nil {
			l.inbox.addDone(doneRow{keyOf(&rows[i]), rows[i].WakeRow.Seq, rows[i].LimitKey})
			if rows[i].LimitKey != "" && l.limitsKeys.Load() {
				notify(l.wake) // its slot is free
			}
			l.slotFreed()
		}
	}
}

// FiresWithin reports whether this process fires a task row that wakes at that instant, if Awake tells it,
// though no wake-up row is there.
func (s *Scheduler) FiresWithin(p task.Partition, at task.Instant) bool {
	now := s.Clock.Now()
	if s.isLimited(p) && !s.startsLimited(p) {
		return false // its owner finds it by its wake-up row
	}
	if s.Fires(p) {
		return at <= now.Add(s.Window) && s.inFlightLimit.left.Load() > 0
	}
	return s.Foreign && at <= now.Add(s.Window/2) && s.foreign.accepts(p)
}

func (s *Scheduler) firedOf(p task.Partition) *firedPartition { return (*s.fired.Load())[p] }

// loopOf returns the loop of a partition that is fired here; nil when there is none.
func (s *Scheduler) loopOf(p task.Partition) *loop {
	if one := s.firedOf(p); one != nil {
		return one.loop.Load()
	}
	return nil
}

// loops returns the loops of the partitions that are fired here.
func (s *Scheduler) loops() iter.Seq2[task.Partition, *loop] {
	return func(yield func(task.Partition, *loop) bool) {
		for p, one := range *s.fired.Load() {
			if l := one.loop.Load(); l != nil && !yield(p, l) {
				return
			}
		}
	}
}

// Fires reports whether a partition is fired here: as its owner, or until its next owner has taken over.
func (s *Scheduler) Fires(p task.Partition) bool { return s.firedOf(p) != nil }

// ClockStepped says that the wall clock was set, and by how much, so that no loop sleeps through it. It may
// be called from any goroutine, and does no I/O.
func (s *Scheduler) ClockStepped(by time.Duration) {
	s.shiftActivity(by)
	for _, l := range s.loops() {
		notify(l.wake)
	}
	notify(s.idle.changed)
	s.foreign.wakeAll()
}
