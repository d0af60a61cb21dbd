// Package scheduler fires tasks at their millisecond. It owns the look-ahead of the partitions assigned to
// this process and of what is in flight there: first dispatches, retries, enqueue timeouts and lost workers.
// One loop fires each partition; firing says what that means. It reads the store, decides, and gives the
// dispatcher orders; it never talks to a queue's consumers and never writes a task itself.
//
// Ownership only decides who tries. Two schedulers with one partition cost
// refused writes and nothing worse.
package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds and timing, all settable through Config.
const (
	// WindowDefault is how far ahead of now a partition is read (W); it is read again every W/2.
	WindowDefault = 10 * time.Second
	// LeadDefault is how long before its due time a task may be enqueued; its message is held back until
	// then.
	LeadDefault = 100 * time.Millisecond
	// LookaheadRowsDefault bounds what one process reads ahead, over all its partitions.
	LookaheadRowsDefault = 1 << 16
	// FlightRowsDefault bounds the tasks in flight that one process remembers, over all its partitions. Those
	// beyond it are looked at with the next full pass.
	FlightRowsDefault = 1 << 18
	// Each partition's share of the look-ahead stays within these.
	partitionRowsMin, partitionRowsMax = 64, 4096
	// batchRowsMax bounds one dispatch.
	batchRowsMax = 512
	// hintRowsMax bounds the hints that wait for a partition; what exceeds it is found by a scan.
	hintRowsMax = 4096
	// doneRowsMax bounds what a partition is told to forget at once; the rest is found out in time.
	doneRowsMax = 1 << 16
	// Retry of a partition whose store or queue fails.
	retryMin, retryMax = 20 * time.Millisecond, 5 * time.Second
	// roomEvery is how often a full queue is looked at where it cannot tell by itself.
	roomEvery = 20 * time.Millisecond
	// leaseLooksMax bounds how often a lease is looked at again because a heartbeat came in between.
	leaseLooksMax = 3
	// idleMax bounds any wait, so that a missed signal costs seconds and not a task.
	idleMax = time.Minute
)

// Store is what the scheduler reads.
type Store interface {
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error)
	ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error)
}

// Queue is what the scheduler asks of the queues.
type Queue interface {
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Durable() bool
}

// Dispatcher carries out what the scheduler decides.
type Dispatcher interface {
	Dispatch(ctx context.Context, orders []task.Order) []task.Dispatched
	// Remove deletes wake-up rows that nobody needs any more; losing it does no harm.
	Remove(ctx context.Context, rows []task.Task)
	Send(ctx context.Context, tasks []task.Task)
	Room(ctx context.Context, name queue.Name) (int, <-chan struct{})
}

// Leases is where the leases of workers are.
type Leases interface {
	Look(ctx context.Context, worker string) (lease.Lease, error)
	// MarkLost ends a lease unless it was renewed since Look; then it is store.ErrConflict.
	MarkLost(ctx context.Context, seen lease.Lease) error
}

// Partitions lists all there are.
type Partitions interface {
	Partitions() []task.Partition
	Changed() <-chan struct{}
}

// Config is what a Scheduler is made of; the durations and LookaheadRows have defaults.
type Config struct {
	Store      Store
	Queue      Queue
	Dispatcher Dispatcher
	Leases     Leases
	Ownership  Ownership
	Handover   Handover // nil: no other process takes over from this one
	Partitions Partitions
	Clock      clock.Clock
	Log        *slog.Logger
	Hooks      Hooks
	Delivery   *Delivery // nil: there are no deliver lambdas here
	Doubts     *Doubts   // nil: an ended row stays until a pass has seen its wake-up row
	// Found is told of a row that was claimed when its partition came to this process. nil: nobody wants to
	// know.
	Found func(t *task.Task)
	// Ready is called by Run when all partitions of a share have been read ahead. nil: nobody wants to know.
	Ready func()

	// Process is the name of this process in the rows that it enqueues and acquires: unique per start, where
	// there is more than one.
	Process string
	// Presence tells what is known of a process by its name: whether it is there, and if not, whether it is
	// gone for sure. Neither means that it was never heard of. nil: there are no others.
	Presence func(process string) (here, gone bool)

	// Guests says that tasks may be told of here whose partitions are of other processes, which hear of them
	// only by their next scan. Such a task is fired here if it is due before.
	Guests bool

	Window        time.Duration // 0: WindowDefault
	Lead          time.Duration // 0: LeadDefault
	LookaheadRows int           // 0: LookaheadRowsDefault
	FlightRows    int           // 0: FlightRowsDefault
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	// Waked: a wake-up fired and led to this event.
	Waked func(t *task.Task, kind task.EventKind)
	// Lost: a worker's lease ran out and was marked so.
	Lost func(worker string)
	// Shared: the members or the partitions changed, and this is what follows. Called by Run, before anything
	// is done.
	Shared func(*Share)
	// Warm: all partitions of the share have been read ahead. Called by Run.
	Warm func(*Share)
	// Failed: a partition could not be read or dispatched and is tried again.
	Failed func(p task.Partition, err error)
}

func (c Config) withDefaults() Config {
	if c.Window == 0 {
		c.Window = WindowDefault
	}
	if c.Lead == 0 {
		c.Lead = LeadDefault
	}
	if c.LookaheadRows == 0 {
		c.LookaheadRows = LookaheadRowsDefault
	}
	if c.FlightRows == 0 {
		c.FlightRows = FlightRowsDefault
	}
	if c.Handover == nil {
		c.Handover = alone{}
	}
	return c
}

// Scheduler runs one goroutine for each partition it owns.
type Scheduler struct {
	Config

	dog     watchdog
	still   standstill
	flights *budget
	leases  goodLeases

	hand  hand
	noted atomic.Pointer[passNote] // replaced by Run and read by everyone
	quiet quiet
	turns turns

	loops atomic.Pointer[map[task.Partition]*loop] // replaced by Run and read by everyone

	guests guests

	share    atomic.Pointer[Share] // replaced by Run
	pokeWarm chan struct{}         // has an element when a partition has become warm
	progress progress              // of Run
}

// New returns a scheduler that does nothing until Run.
func New(c Config) *Scheduler {
	s := &Scheduler{Config: c.withDefaults(), pokeWarm: make(chan struct{}, 1)}
	s.share.Store(&Share{})
	s.noted.Store(&passNote{})
	s.flights = newBudget(s.FlightRows)
	s.Store = guardedStore{s.Store, s}
	s.Leases = guardedLeases{s.Leases, s}
	s.guests.init()
	s.turns.init()
	s.clear()
	return s
}

// clear leaves nobody to be told of anything.
func (s *Scheduler) clear() {
	s.loops.Store(&map[task.Partition]*loop{})
	s.guests.clear()
}

// follow starts and stops loops so that there is one for each partition that is fired here.
func (s *Scheduler) follow(ctx context.Context, group *sync.WaitGroup, since task.Instant, fired []task.Partition) {
	old := *s.loops.Load()
	rows := s.partitionRows(len(fired))
	next := make(map[task.Partition]*loop, len(fired))
	var fresh []*loop
	for _, p := range fired {
		l := old[p]
		if l == nil {
			l = newLoop(s, p, since, rows)
			fresh = append(fresh, l)
		}
		next[p] = l
	}
	s.loops.Store(&next) // before the first looks, so that no hint falls in between
	for p, l := range old {
		if next[p] == nil && !s.isGuest(p) {
			l.stop()
		}
	}
	for _, l := range fresh {
		s.start(ctx, group, l)
	}
}

func (s *Scheduler) start(ctx context.Context, group *sync.WaitGroup, l *loop) {
	ctx, l.stop = context.WithCancel(ctx)
	group.Go(func() { l.run(ctx) })
}

// presence is Presence, where there is one.
func (s *Scheduler) presence(process string) (here, gone bool) {
	if s.Presence == nil {
		return false, false
	}
	return s.Presence(process)
}

// isGone reports whether a process is another one than this and not there any more.
func (s *Scheduler) isGone(process string) bool {
	_, gone := s.presence(process)
	return process != s.Process && gone
}

func (s *Scheduler) partitionRows(partitions int) int {
	return min(max(s.LookaheadRows/max(partitions, 1), partitionRowsMin), partitionRowsMax)
}

// Added is the hint that a wake-up row was stored. It may be called from anywhere, as may the others, and
// for partitions of other processes; it costs next to nothing for a task that is not due soon.
func (s *Scheduler) Added(t *task.Task) {
	if l := s.loopOf(t.Partition); l != nil {
		if l.ahead.covers(t.WakeRow.At) {
			l.hint(t, hintAdded)
		}
		return
	}
	if s.firesAlone(t, t.WakeRow.At) {
		s.guest(t, hintAdded)
	}
}

// Awake is the hint that a stored task row has a wake-up the scheduler should know of: in the place of its
// wake-up row, or before that, where FiresWithin said so.
func (s *Scheduler) Awake(t *task.Task) {
	if l := s.loopOf(t.Partition); l != nil {
		if t.Wake != t.WakeRow.At || l.ahead.covers(t.Wake) {
			l.hint(t, hintAwake)
		}
		return
	}
	handedOver := t.Wake != t.WakeRow.At && s.isGuest(t.Partition) // while the row was written
	if handedOver || s.firesAlone(t, t.Wake) {
		s.guest(t, hintAwake)
	}
}

// Enqueued is the hint that a task was stored as enqueued and its message is on its way.
func (s *Scheduler) Enqueued(t *task.Task) {
	if l := s.loopOf(t.Partition); l != nil {
		l.hint(t, hintSent)
	}
}

// Done is the hint that tasks need not be looked at any more where they are: they have ended, or another
// wake-up row wakes them.
func (s *Scheduler) Done(rows []task.Task) {
	for len(rows) > 0 {
		n := 1
		for n < len(rows) && rows[n].Partition == rows[0].Partition {
			n++
		}
		if l := s.loopOf(rows[0].Partition); l != nil {
			l.forget(rows[:n])
		}
		rows = rows[n:]
	}
}

// FiresWithin reports whether a task row of a partition that wakes at that instant is fired by this process,
// if it is told of it by Awake, though no wake-up row stands there.
func (s *Scheduler) FiresWithin(p task.Partition, at task.Instant) bool {
	now := s.Clock.Now()
	if s.loopOf(p) != nil {
		return at <= now.Add(s.Window) && s.flights.left.Load() > 0
	}
	return s.Guests && at <= now.Add(s.Window/2) && s.takesGuest(p)
}

func (s *Scheduler) loopOf(p task.Partition) *loop { return (*s.loops.Load())[p] }

// Fires reports whether a partition is fired here, as its owner or as the one who still is until another one
// has taken over.
func (s *Scheduler) Fires(p task.Partition) bool { return s.loopOf(p) != nil }

// Stuck is how many tasks of deliver lambdas are acquired and not under way: those that wait here for another
// try, and those that others had acquired when they were last seen.
func (s *Scheduler) Stuck() map[task.Partition]int64 {
	all := map[task.Partition]int64{}
	for p, l := range *s.loops.Load() {
		if n := l.stuck.Load(); n > 0 {
			all[p] = n
		}
	}
	return all
}

// InFlight is how many tasks are remembered in memory between their dispatch and their end.
func (s *Scheduler) InFlight() int { return s.FlightRows - int(max(s.flights.left.Load(), 0)) }

// Overdue is the due time of the oldest task that waits to be fired, of each partition that has one in the
// past.
func (s *Scheduler) Overdue() map[task.Partition]task.Instant {
	now := s.Clock.Now()
	all := map[task.Partition]task.Instant{}
	for p, l := range *s.loops.Load() {
		if head := task.Instant(l.head.Load()); !head.IsZero() && head < now {
			all[p] = head
		}
	}
	return all
}
