package hsc

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Store is what the HSC needs of a store.
type Store interface {
	store.Writer
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadsExpire() bool
}

// Queue is what the HSC needs of the lambda queues.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error)
	Delete(ctx context.Context, messages []queue.Message) error
	Release(ctx context.Context, messages []queue.Message, delay time.Duration) error
	Durable() bool
}

// Catalog finds lambdas.
type Catalog interface {
	Lambda(name string) (*catalog.Entry, error)
	// Find also finds a lambda that another process created a moment ago.
	Find(ctx context.Context, name string) (*catalog.Entry, error)
	ByRef(ref uint32) *catalog.Entry
	Changed() <-chan struct{}
}

// Scheduler fires wake-ups. The HSC tells it of the wake-ups that it sets, so that the scheduler need not
// find them in the store. Its methods must not block, nor keep tasks.
type Scheduler interface {
	// FiresWithin reports whether this process will fire a task of the partition from memory if it wakes at
	// that instant. Then its wake-up row stays where it is.
	FiresWithin(p task.Partition, at task.Instant) bool
	// Awake adds the wake-up of a stored task.
	Awake(t *task.Task)
	// Done forgets the wake-up rows that the tasks name: each task ended, or moved to another row, of which a
	// later Awake tells.
	Done(rows []task.Task)
	// PutBack tells of a task that a gate holds, and that was put back instead of claimed. Without hasRow it
	// has no task row, and its message is gone.
	PutBack(t *task.Task, hasRow bool)
}

// Config configures a Service. Scheduler may be nil: then every retry gets a wake-up row of its own.
type Config struct {
	Store     Store
	Queue     Queue
	Catalog   Catalog
	Waiting   *dispatcher.Register // gets the slots of workers
	Leases    *lease.Book
	Sealer    *task.Sealer
	Scheduler Scheduler
	Clock     clock.Clock
	Log       *slog.Logger
	Hooks     Hooks
	// Ended is called with tasks that reached their end. It may be nil.
	Ended func(ids []task.ID)

	// Caller returns the identity that makes a call. A lease belongs to the identity that registered it: claims,
	// heartbeats, results and the end of another identity's lease are refused. nil: all calls are of one identity.
	Caller func(ctx context.Context) string
	// Foreign is called when such a call of another identity is refused. It may be nil.
	Foreign func(ctx context.Context, worker string)
	// Execute refuses a caller that may not run the tasks of a lambda; without a name, the tasks of any lambda.
	// nil: every caller may.
	Execute func(ctx context.Context, lambda string) error

	// Extend checks and stores the follow-ups that the handler of a task adds, and returns the task's chain with
	// them. nil: handlers add none.
	Extend func(ctx context.Context, t *task.Task, add *kinesinv1.Followups) (*task.Chain, error)
	// Parent returns the parent of a task as its handler gets it, without its id and lambda, which it may read
	// with rows; nil if the task follows no other. nil: no task does.
	Parent func(ctx context.Context, t *task.Task, rows func(ctx context.Context, ids []task.ID) ([]task.Task, error)) (*kinesinv1.Parent, error)
	// Traceparent returns the trace context for the handler of a claimed task; nil: that of the task.
	Traceparent func(t *task.Task) string
	// Awaited reports whether tasks behind a limit may wait until a task has ended, whose result is then sent and
	// stored without waiting for others. nil: none do.
	Awaited func(t *task.Task) bool
	// Held reports whether a gate holds a task back, so that it must not be claimed now. nil: none does.
	Held func(t *task.Task, now task.Instant) bool

	// WatchProcess watches worker processes on this machine. nil: none is watched.
	WatchProcess WatchProcess

	// Process is the name of this process in the rows that it enqueues again; empty where it schedules
	// nothing.
	Process string

	Ahead time.Duration // 0: AheadDefault
	// Silence is the longest time between two messages of a stream. Its worker closes a stream that is silent
	// for twice as long, because tasks that come later were held up on the way. 0: SilenceDefault; negative:
	// no limit.
	Silence time.Duration
	// SlotsOnly turns prefetch off: a worker gets no tasks beyond its free slots.
	SlotsOnly bool
	// Callers is the clock by which calls wait, and by which workers renew leases that outlast every jump of
	// Clock; nil: Clock.
	Callers clock.Clock
}

// Process is a worker process on this machine.
type Process interface {
	// HasEnded reports whether it has ended for certain.
	HasEnded() bool
	Close() error
}

// WatchProcess begins to watch a process, which says where it runs and what it is. It returns nil when the
// process cannot be seen from here.
type WatchProcess func(p *kinesinv1.Process) Process

// AheadDefault is how long before its due time a task may be claimed; the worker holds it until then.
const AheadDefault = 40 * time.Millisecond

// Limits of a stream.
const (
	GroupsMax  = api.GroupsMax  // slot groups of a process
	LambdasMax = api.LambdasMax // lambdas of a slot group
	SlotsMax   = 10_000         // of all slot groups together
	// HeldMax is how many attempts a process names: all it can get, and as many results that were not
	// acknowledged.
	HeldMax = 2 * (SlotsMax + GroupsMax*prefetchMax)
	_       = uint(api.HeldMax - HeldMax) // does not compile if the wire allows fewer
)

// SilenceDefault is the longest time between two messages of a stream. A worker waits for twice as long.
// Whatever it gets by then was claimed confirmAfter before at most, and so is named in a heartbeat before
// anybody takes it for lost (task.ClaimTimeout).
const SilenceDefault = 2 * time.Second

// Limits of the unary calls.
const (
	ClaimMax     = 1000 // tasks of one Claim
	ClaimWaitMax = time.Minute
	ResultsMax   = api.ResultsMax // results of one SetResults

	// claimWaitMin is the shortest wait of a Claim, claimWaitRemote where the queue is a service. Messages
	// that a service delivers after a call has ended go back, so a call that did not wait for its answer
	// would never get any.
	claimWaitMin    = time.Millisecond
	claimWaitRemote = 300 * time.Millisecond
)

// A slot group whose attempts are short gets tasks beyond its free slots (prefetch), so that no slot stays
// empty while the next claim is made durable. The worker keeps them in order and gives back, uncharged, those
// that waited too long.
const (
	prefetchPerSlot = 3    // tasks beyond each slot
	prefetchMax     = 1024 // of a slot group
	// shortMax is the mean duration up to which attempts are short, from start to the receipt of the result.
	shortMax = 20 * time.Millisecond
	// neverStarted is the duration of an attempt that came back without a start: the slots are busy for long.
	neverStarted = time.Second
	meanShare    = 8 // the newest attempt counts for one part in so many
)
