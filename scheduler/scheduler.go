// Package scheduler fires tasks at their millisecond. It owns the look-ahead of
// the partitions assigned to this process and every wake-up in them: first
// dispatches, retries, enqueue timeouts and lost workers. It reads the store,
// decides, and gives the dispatcher orders; it never talks to a queue's
// consumers and never writes a task itself.
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
	"github.com/kinesin-io/kinesin/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds and timing, all settable through Config.
const (
	// WindowDefault is how far ahead of now a partition is read (W); it is read again every W/2.
	WindowDefault = 10 * time.Second
	// LeadDefault is how long before its due time a task may be enqueued; its message is held back until then.
	LeadDefault = 100 * time.Millisecond
	// LookaheadRowsDefault bounds what one process reads ahead, over all its partitions.
	LookaheadRowsDefault = 1 << 16
	// WatchedRowsDefault bounds the rows that one process watches, over all its partitions: mostly tasks that run for
	// longer than their workers' leases. Those beyond it cost a write per lease.
	WatchedRowsDefault = 1 << 17
	// Each partition's share of the look-ahead stays within these.
	partitionRowsMin, partitionRowsMax = 64, 4096
	// batchRowsMax bounds one dispatch.
	batchRowsMax = 512
	// hintRowsMax bounds the hints that wait for a partition; what exceeds it is found by a scan.
	hintRowsMax = 4096
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
	ScanWaiting(ctx context.Context, p task.Partition, after store.WaitingKey, through task.Instant, limit int) ([]task.Task, error)
	ScanWakeups(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error)
}

// Queue is what the scheduler asks of the queues.
type Queue interface {
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Durable() bool
}

// Dispatcher carries out what the scheduler decides.
type Dispatcher interface {
	Dispatch(ctx context.Context, orders []task.Order) []error
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

	// Guests says that tasks may be told of here whose partitions are of other processes, which hear of them only by their
	// next scan. Such a task is fired here if it is due before.
	Guests bool

	Window        time.Duration // 0: WindowDefault
	Lead          time.Duration // 0: LeadDefault
	LookaheadRows int           // 0: LookaheadRowsDefault
	WatchedRows   int           // 0: WatchedRowsDefault
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	// Waked: a wake-up fired and led to this event.
	Waked func(t *task.Task, kind task.EventKind)
	// Lost: a worker's lease ran out and was marked so.
	Lost func(worker string)
	// Found: the row was claimed when its partition came to this process.
	Found func(t *task.Task)
	// Shared: the members or the partitions changed, and this is what follows. Called by Run, before anything is done.
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
	if c.WatchedRows == 0 {
		c.WatchedRows = WatchedRowsDefault
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
	watched *budget
	leases  goodLeases

	hand  hand
	quiet quiet
	turns turns

	// Both are replaced by Run and read by everyone; a partition is in one of them.
	runners    atomic.Pointer[map[task.Partition]*runner]
	deliverers atomic.Pointer[map[task.Partition]*deliverer]

	guests guests

	share    atomic.Pointer[Share] // replaced by Run
	pokeWarm chan struct{}         // has an element when a partition has become warm
	progress progress              // of Run
}

// New returns a scheduler that does nothing until Run.
func New(c Config) *Scheduler {
	s := &Scheduler{Config: c.withDefaults(), pokeWarm: make(chan struct{}, 1)}
	s.share.Store(&Share{})
	s.watched = newBudget(s.WatchedRows)
	s.Store = guardedStore{s.Store, s}
	s.Leases = guardedLeases{s.Leases, s}
	s.guests.init()
	s.turns.init()
	s.clear()
	return s
}

// clear leaves nobody to be told of anything.
func (s *Scheduler) clear() {
	s.runners.Store(&map[task.Partition]*runner{})
	s.deliverers.Store(&map[task.Partition]*deliverer{})
	s.guests.clear()
}

// split tells the partitions of deliver lambdas from the others.
func (s *Scheduler) split(owned []task.Partition) (managed, deliver []task.Partition) {
	if s.Delivery == nil {
		return owned, nil
	}
	for _, p := range owned {
		if s.Delivery.Is(p) {
			deliver = append(deliver, p)
		} else {
			managed = append(managed, p)
		}
	}
	return managed, deliver
}

// followDeliver is follow for partitions of deliver lambdas. Those that stay look at their rows again where the members
// may have changed.
func (s *Scheduler) followDeliver(ctx context.Context, group *sync.WaitGroup, owned []task.Partition, rows int, rescan bool) {
	old := *s.deliverers.Load()
	next := make(map[task.Partition]*deliverer, len(owned))
	var fresh []*deliverer
	for _, p := range owned {
		d := old[p]
		if d == nil {
			d = newDeliverer(s, p, rows)
			fresh = append(fresh, d)
		} else if rescan {
			d.rescan()
		}
		next[p] = d
	}
	s.deliverers.Store(&next)
	for p, d := range old {
		if next[p] == nil && !s.isGuest(p) {
			d.stop()
		}
	}
	for _, d := range fresh {
		runCtx, stop := context.WithCancel(ctx)
		d.stop = stop
		group.Go(func() { d.run(runCtx) })
	}
}

// follow starts and stops runners so that there is one for each owned partition.
func (s *Scheduler) follow(ctx context.Context, group *sync.WaitGroup, since task.Instant, owned []task.Partition, rows int) {
	old := *s.runners.Load()
	next := make(map[task.Partition]*runner, len(owned))
	var fresh []*runner
	for _, p := range owned {
		r := old[p]
		if r == nil {
			r = newRunner(s, p, since, rows)
			fresh = append(fresh, r)
		}
		next[p] = r
	}
	s.runners.Store(&next) // before the first scans, so that no hint falls in between
	for p, r := range old {
		if next[p] == nil && !s.isGuest(p) {
			r.stop()
		}
	}
	for _, r := range fresh {
		runCtx, stop := context.WithCancel(ctx)
		r.stop = stop
		group.Go(func() { r.run(runCtx) })
	}
}

func (s *Scheduler) partitionRows(partitions int) int {
	return min(max(s.LookaheadRows/max(partitions, 1), partitionRowsMin), partitionRowsMax)
}

// Added is the hint that a waiting row was stored. It may be called from anywhere, and
// for partitions of others; it costs next to nothing for a task that is not due soon.
func (s *Scheduler) Added(t *task.Task) {
	if r := (*s.runners.Load())[t.Partition]; r != nil {
		if r.waiting.covers(t.Due) {
			r.hint(*t, true)
		}
		return
	}
	if d := (*s.deliverers.Load())[t.Partition]; d != nil {
		if d.waiting.covers(t.Due) {
			d.hint(*t, true)
		}
		return
	}
	if s.firesAlone(t, t.Due) {
		s.guest(hint{*t, true})
	}
}

// Awake is the hint that a task row has a wake-up the scheduler should know of.
func (s *Scheduler) Awake(t *task.Task) {
	if r := (*s.runners.Load())[t.Partition]; r != nil {
		if r.wakeups.covers(t.Wake) {
			r.hint(*t, false)
		}
		return
	}
	if d := (*s.deliverers.Load())[t.Partition]; d != nil {
		if d.wakeups.covers(t.Wake) {
			d.hint(*t, false)
		}
		return
	}
	if s.firesAlone(t, t.Wake) {
		s.guest(hint{*t, false})
	}
}

// Fires reports whether a partition is fired here, as its owner or as the one who still is until another one has taken over.
func (s *Scheduler) Fires(p task.Partition) bool {
	return (*s.runners.Load())[p] != nil || (*s.deliverers.Load())[p] != nil
}

// Stuck is how many tasks of deliver lambdas are acquired and not under way: those that wait here for another try, and those
// that others had acquired at the last look.
func (s *Scheduler) Stuck() map[task.Partition]int64 {
	all := map[task.Partition]int64{}
	for p, d := range *s.deliverers.Load() {
		if n := d.stuck.Load(); n > 0 {
			all[p] = n
		}
	}
	return all
}

// Watched is how many rows are watched in memory while their wake-ups stay in the past.
func (s *Scheduler) Watched() int { return s.WatchedRows - int(max(s.watched.left.Load(), 0)) }

// Overdue is the due time of the oldest task that waits to be dispatched, of each owned partition that has one in the past.
func (s *Scheduler) Overdue() map[task.Partition]task.Instant {
	now := s.Clock.Now()
	all := map[task.Partition]task.Instant{}
	for p, r := range *s.runners.Load() {
		if head := task.Instant(r.head.Load()); !head.IsZero() && head < now {
			all[p] = head
		}
	}
	for p, d := range *s.deliverers.Load() {
		if head := task.Instant(d.head.Load()); !head.IsZero() && head < now {
			all[p] = head
		}
	}
	return all
}
