// Package scheduler decides when each task is dispatched, to the millisecond. It owns the schedule of the
// partitions that are assigned to this process and what is in flight there: first dispatches, retries,
// enqueue timeouts and lost workers. One loop per partition reads the store, decides, and gives orders to the
// dispatcher. The package never talks to a queue's consumers and never writes a task itself.
//
// Ownership only decides who tries. Two schedulers with one partition cost refused writes and nothing worse.
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Defaults of Config.
const (
	// WindowDefault is how far ahead of now a partition is read; it is read again every half window.
	WindowDefault = 10 * time.Second
	// LeadDefault is how long before its due time a task may be enqueued. The queue holds its message until
	// then.
	LeadDefault = 100 * time.Millisecond
	// LookaheadRowsDefault bounds the rows that one process reads ahead, over all its partitions.
	LookaheadRowsDefault = 1 << 16
	// FlightRowsDefault bounds the tasks in flight that one process remembers, over all its partitions. Tasks
	// beyond it are checked with the next full scan.
	FlightRowsDefault = 1 << 18
	// IdleLoopsDefault is how many loops there are before idle partitions have none.
	IdleLoopsDefault = 256
)

// Partitions are handed over without a gap: the next owner first reads a partition ahead (then it is warm)
// and says so; the previous owner fires it until then. In between both fire it, which costs refused writes.
// See docs/adr/0016.
const (
	// ReleaseMax bounds how long a partition of another owner is fired on here because that one does not show
	// that it has taken over.
	ReleaseMax = 6 * time.Second
	// lambdasKnown is how long after this process all others know that a lambda came or went. They read the
	// lambdas every 1.5 s.
	lambdasKnown = 2500 * time.Millisecond
	// Linger is for how long after a take-over the previous owner dispatches what it knows: until the next
	// owner's second read-ahead. After a take-over that took longer than SecondRead it is half a window.
	Linger = SecondRead
	// SecondRead is how long after the first read-ahead of a partition the second one is: it finds what only
	// the previous owner was told of in the meantime.
	SecondRead = 2 * time.Second
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
	// Remove deletes wake-up rows that no task needs; losing a delete does no harm.
	Remove(ctx context.Context, rows []task.Task)
	Send(ctx context.Context, tasks []task.Task)
	Room(ctx context.Context, name queue.Name) (int, <-chan struct{})
}

// Deliverer puts tasks on the queues of their deliver lambdas.
type Deliverer interface {
	// Deliver acquires tasks, sends them and removes their rows. It returns the orders that are left to do.
	Deliver(ctx context.Context, orders []task.Order) []task.Undelivered
}

// Delivery is what a scheduler needs for deliver lambdas.
type Delivery struct {
	// Is reports whether a partition belongs to such a lambda.
	Is        func(p task.Partition) bool
	Deliverer Deliverer
}

// Quotas bound the starts of tasks. All methods answer from memory, and are safe for concurrent use.
type Quotas interface {
	// Rate returns how many tasks of a partition's lambda and priority may start per second; 0: any number.
	Rate(p task.Partition) float64
	// Take takes up to want starts for a partition of which wait tasks wait. When it grants fewer, again says
	// when to ask again; more, if not nil, is closed when that may be sooner.
	Take(p task.Partition, want, wait int) (granted int, again task.Instant, more <-chan struct{})
	// Return gives back starts that were not made.
	Return(p task.Partition, count int)
}

// KeyLimits returns a lambda's limits for the tasks of each limit key: how many run at once, how many start
// per second, 0 for any number; and whether its priorities have weights.
type KeyLimits func(lambda uint32) (atOnce int32, rate float64, weighted bool)

// Concurrency says which partitions have concurrency quotas. All methods answer from memory, and are safe for
// concurrent use.
type Concurrency interface {
	// Group returns the group of a partition: what names all partitions whose slots are counted together, and
	// which therefore have one owner. limited is false if any number of its tasks may run at once.
	Group(p task.Partition) (group task.Partition, limited bool)
	// Limits returns the quota of a group, and the weights of its priorities; nil: there is none any more.
	Limits(group task.Partition) (c *limit.Concurrency, weights []uint16)
	// Changed returns a channel that is closed when the others may answer otherwise.
	Changed() <-chan struct{}
}

// RetryBudget bounds the retries of lambdas. All methods answer from memory, and are safe for concurrent use.
type RetryBudget interface {
	// IsBounded reports whether a lambda's retries are bounded; if not, nobody need ask.
	IsBounded(lambda uint32) bool
	// Earn notes starts that are no retries.
	Earn(lambda uint32, starts int)
	// Left returns how many retries may start now.
	Left(lambda uint32) int
	// Take takes one; false: the budget is spent.
	Take(lambda uint32) bool
	// Return gives one back that was not started.
	Return(lambda uint32)
}

// Leases reads and ends the leases of workers.
type Leases interface {
	Look(ctx context.Context, worker string) (lease.Lease, error)
	// MarkLost ends a lease. It fails with store.ErrConflict if the lease was renewed since Look.
	MarkLost(ctx context.Context, seen lease.Lease) error
}

// Partitions lists all partitions.
type Partitions interface {
	Partitions() []task.Partition
	Changed() <-chan struct{}
}

// Ownership says which partitions this process owns.
type Ownership interface {
	// Self returns the name of this process among the members.
	Self() string
	// Owners returns the owner of each partition, and all members.
	Owners(all []task.Partition) (owners, members []string)
	// Changed returns a channel that is closed when Owners may answer otherwise; nil when it never will.
	Changed() <-chan struct{}
}

// Handover is how processes tell each other what they have taken over.
type Handover interface {
	// InForce says that this process has read ahead, and fires, all that it owns among these members.
	InForce(members []string)
	// Follows reports whether a member has said that of itself about these members.
	Follows(member string, members []string) bool
	// Agree reports whether all other members have said that of themselves about these members.
	Agree(members []string) bool
	// Counted returns since when the others have counted this process as a member without a break, and
	// whether they are sure to do so now.
	Counted() (since task.Instant, ok bool)
	// Heard returns a channel that is closed when Follows may answer otherwise, or a process may have gone.
	Heard() <-chan struct{}
}

// Downtime is what finds stale rows, and what takes them.
type Downtime struct {
	Rows ControlRows
	// Retention returns how long a lambda keeps its ended rows; false for an unknown lambda.
	Retention func(lambda uint32) (time.Duration, bool)
	Aside     Aside
}

// ControlRows is where the record is.
type ControlRows interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
}

// Aside keeps tasks that a person has to decide about.
type Aside interface {
	// SetAside keeps the tasks of wake-up rows, until there is an error. It returns how many are kept, from
	// the first on.
	SetAside(ctx context.Context, rows []task.Task) (n int, err error)
}

// Gating is what a scheduler needs to hold back what gates select.
type Gating struct {
	Gates Gates
	// Pace takes the start of a task of a partition that a gate holds which resumes at a pace; when it is not
	// granted, again says when to ask again. nil: such a gate holds nothing.
	Pace func(g *hold.Gate, p task.Partition) (granted bool, again task.Instant)
	// Retention returns how long a lambda keeps its ended rows; false for an unknown lambda.
	Retention func(lambda uint32) (time.Duration, bool)
}

// Gates are the gates that are in force, as they are known here.
type Gates interface {
	// Number grows with each change.
	Number() uint64
	// Changed returns a channel that is closed with the next change.
	Changed() <-chan struct{}
	OfLambda(lambda uint32) hold.Gates
}

// Config is what a Scheduler is made of; the durations and row counts have defaults.
type Config struct {
	Store      Store
	Queue      Queue
	Leases     Leases
	Ownership  Ownership
	Handover   Handover // nil: no other process takes over from this one
	Partitions Partitions
	Clock      clock.Clock
	Log        *slog.Logger
	Hooks      Hooks
	Delivery   *Delivery // nil: there are no deliver lambdas here
	Quotas     Quotas    // nil: nothing bounds the rate of starts
	KeyLimits  KeyLimits // nil: no lambda limits its limit keys
	// Concurrency bounds how many tasks run at once; nil: nothing does.
	Concurrency Concurrency
	// RetryBudget bounds retries; nil: nothing does.
	RetryBudget RetryBudget
	Downtime    *Downtime // nil: ended rows stay until a full scan has seen their wake-up rows
	Gating      *Gating   // nil: there are no gates
	// Ready is called by Run when all partitions of an assignment have been read ahead. It may be nil.
	Ready func()

	// Process is the name of this process in the rows that it enqueues and acquires: unique per start, where
	// there is more than one.
	Process string
	// Presence says of a process whether it is here, and if not, whether it is gone for sure. Neither means
	// that it was never heard of. nil: there are no other processes.
	Presence func(process string) (here, gone bool)

	// Foreign says that tasks may be stored here whose partitions other processes own. Such an owner finds
	// the task with its next read-ahead; a task that is due before is dispatched here.
	Foreign bool

	Window        time.Duration // 0: WindowDefault
	Lead          time.Duration // 0: LeadDefault
	LookaheadRows int           // 0: LookaheadRowsDefault
	FlightRows    int           // 0: FlightRowsDefault; as many rows that wait for their limit keys are remembered, too
	IdleLoops     int           // 0: IdleLoopsDefault; negative: none
}

// Hooks are called when something happened. A nil hook is not called.
type Hooks struct {
	// Waked: a wake-up was due and led to this event.
	Waked func(t *task.Task, kind task.EventKind)
	// Ended: a wake-up ended the task.
	Ended func(t *task.Task)
	// Lost: a worker's lease ran out and was marked lost.
	Lost func(worker string)
	// Assigned: the members or the partitions changed. Called by Run, before anything is done about it.
	Assigned func(*Assignment)
	// Warm: all partitions of the assignment have been read ahead. Called by Run.
	Warm func(*Assignment)
	// Rests: a loop has nothing to do before the time that Scheduler.Rests says. Called by the loop.
	Rests func()
	// Failed: a partition could not be read or dispatched and is tried again.
	Failed func(p task.Partition, err error)
}

// Assignment says which partitions the members own, as this process sees it.
type Assignment struct {
	Members []string
	// Load is how many partitions each member owns.
	Load map[string]int
	// Owned is how many this process owns; for a while it also fires others, until they are taken over.
	Owned int
	// Gained and Lost are how many partitions this assignment brought or took, among those that are in it and
	// in the one before.
	Gained, Lost int
	// Since is when this assignment was computed, Warm how long it took from then until all owned partitions
	// were read ahead; 0: not yet. In monotonic time.
	Since, Warm time.Duration
}

func (c Config) withDefaults() Config {
	c.Window = cmp.Or(c.Window, WindowDefault)
	c.Lead = cmp.Or(c.Lead, LeadDefault)
	c.LookaheadRows = cmp.Or(c.LookaheadRows, LookaheadRowsDefault)
	c.FlightRows = cmp.Or(c.FlightRows, FlightRowsDefault)
	if c.IdleLoops = cmp.Or(c.IdleLoops, IdleLoopsDefault); c.IdleLoops < 0 {
		c.IdleLoops = 0
	}
	if c.Handover == nil {
		c.Handover = noHandover{}
	}
	if c.Presence == nil {
		c.Presence = func(string) (here, gone bool) { return false, false }
	}
	return c
}

// noHandover is the Handover of a process from which no other takes over.
type noHandover struct{}

func (noHandover) InForce([]string)              {}
func (noHandover) Follows(string, []string) bool { return true }
func (noHandover) Agree([]string) bool           { return true }
func (noHandover) Counted() (task.Instant, bool) { return 0, true }
func (noHandover) Heard() <-chan struct{}        { return nil }
