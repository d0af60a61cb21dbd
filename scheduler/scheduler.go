package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Scheduler runs one loop for each partition that it fires.
type Scheduler struct {
	*shared

	loops      atomic.Pointer[map[task.Partition]*loop] // replaced by Run and read by all
	foreign    foreignLoops
	assignment atomic.Pointer[Assignment] // replaced by Run
	progress   progress                   // of Run
}

// New returns a scheduler that does nothing until Run.
func New(c Config) *Scheduler {
	s := &Scheduler{shared: newShared(c)}
	s.assignment.Store(&Assignment{})
	s.loops.Store(&map[task.Partition]*loop{})
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
		reader: scheduleReader{slot: slotRequest{wake: wake}, full: newFullScan(s.Clock.Uint64())},
	}
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

// setLoops starts and stops loops so that there is one for each partition that is fired here. Loops that are
// kept for foreign partitions go on.
func (s *Scheduler) setLoops(g *loopGroup, fired []task.Partition, kept map[task.Partition]bool) {
	old := *s.loops.Load()
	rows := min(max(s.LookaheadRows/max(len(fired), 1), partitionRowsMin), partitionRowsMax)
	next := make(map[task.Partition]*loop, len(fired))
	var fresh []*loop
	for _, p := range fired {
		l := old[p]
		if l == nil {
			l = newLoop(s.shared, p, g.start, rows)
			fresh = append(fresh, l)
		}
		next[p] = l
	}
	s.loops.Store(&next) // before the first read, so that no hint falls in between
	for p, l := range old {
		if next[p] == nil && !kept[p] {
			l.stop()
		}
	}
	for _, l := range fresh {
		g.run(l)
	}
}

// Added is the hint that a wake-up row was stored. Hints may come from any goroutine, and for partitions of
// other processes; a hint of a task that is not due soon costs next to nothing.
func (s *Scheduler) Added(t *task.Task) {
	if l := s.loopOf(t.Partition); l != nil {
		if l.buffer.covers(t.WakeRow.At) {
			l.hint(t, hintAdded)
		}
		return
	}
	if s.isDueBeforeOwnerReads(t, t.WakeRow.At) {
		s.foreign.hint(clock.Mono(s.Clock), t, hintAdded)
	}
}

// Awake is the hint that a stored task row has a wake-up that the scheduler should know: where its wake-up
// row is, or before that, if FiresWithin said so.
func (s *Scheduler) Awake(t *task.Task) {
	if l := s.loopOf(t.Partition); l != nil {
		// A scan passes over the wake-up row of a task that an earlier hint has put in flight, so the loop is
		// told of what is due soon also where a read-ahead is still to come.
		if t.Wake != t.WakeRow.At || t.Wake <= s.Clock.Now().Add(s.Window) || l.buffer.covers(t.Wake) {
			l.hint(t, hintAwake)
		}
		return
	}
	handedOver := t.Wake != t.WakeRow.At && s.foreign.has(t.Partition) // while the row was written
	if handedOver || s.isDueBeforeOwnerReads(t, t.Wake) {
		s.foreign.hint(clock.Mono(s.Clock), t, hintAwake)
	}
}

// isDueBeforeOwnerReads reports whether a task of a foreign partition may be due before its owner knows it.
func (s *Scheduler) isDueBeforeOwnerReads(t *task.Task, at task.Instant) bool {
	return s.Foreign && isWaiting(t) && at <= s.Clock.Now().Add(s.Window/2)
}

// Enqueued is the hint that a task was stored as enqueued and its message is on its way.
func (s *Scheduler) Enqueued(t *task.Task) {
	if l := s.loopOf(t.Partition); l != nil {
		l.hint(t, hintSent)
	}
}

// Done is the hint that tasks need not be checked any more where they are: they have ended, or another
// wake-up row wakes them.
func (s *Scheduler) Done(rows []task.Task) {
	for i := range rows {
		if l := s.loopOf(rows[i].Partition); l != nil {
			l.inbox.addDone(keyOf(&rows[i]))
		}
	}
}

// FiresWithin reports whether this process fires a task row that wakes at that instant, if Awake tells it,
// though no wake-up row is there.
func (s *Scheduler) FiresWithin(p task.Partition, at task.Instant) bool {
	now := s.Clock.Now()
	if s.loopOf(p) != nil {
		return at <= now.Add(s.Window) && s.inFlightLimit.left.Load() > 0
	}
	return s.Foreign && at <= now.Add(s.Window/2) && s.foreign.accepts(p)
}

func (s *Scheduler) loopOf(p task.Partition) *loop { return (*s.loops.Load())[p] }

// Fires reports whether a partition is fired here: as its owner, or until its next owner has taken over.
func (s *Scheduler) Fires(p task.Partition) bool { return s.loopOf(p) != nil }

// ClockStepped says that the wall clock was set, and by how much, so that no loop sleeps through it. It may
// be called from any goroutine, and does no I/O.
func (s *Scheduler) ClockStepped(by time.Duration) {
	s.shiftActivity(by)
	for _, l := range *s.loops.Load() {
		notify(l.wake)
	}
	s.foreign.wakeAll()
}
