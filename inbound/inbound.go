// Package inbound is where tasks come in and are asked about: it validates,
// de-duplicates and stores what users schedule, answers what became of it,
// and cancels. It serves the TaskService and the InboundService of the wire
// contract. It calls the store, hints the scheduler,
// and puts what is due within moments straight on its queue, or into a slot that is reserved for it; it never
// talks to workers.
package inbound

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of what users may ask for. What is settable is in Config.
const (
	// HorizonDefault is how far ahead a task may be due.
	HorizonDefault = 10 * 365 * 24 * time.Hour
	// NearDefault is how soon a task must be due to go to its queue at once.
	NearDefault = 10 * time.Second
	// NearDepthMaxDefault is how many messages a queue may hold for near tasks to go there at once.
	NearDepthMaxDefault = 4096
	// KeyBytesMax bounds the key of a task, in bytes.
	KeyBytesMax = 256
	// CollectionBytesMax bounds the collection of a task, in bytes.
	CollectionBytesMax = 128
	// ScheduleItemsMax is how many tasks one call schedules at most.
	ScheduleItemsMax = 10_000
	// IDsMax is how many ids one call names at most.
	IDsMax = 1000
	// ListMax is how many tasks one page of a list has at most; listDefault when nothing is said.
	ListMax     = 1000
	listDefault = 100
	// WaitMax is how long one call waits at most.
	WaitMax = time.Minute
	// PayloadsBytesMax bounds the payloads of one answer, so that it fits a message also in base64.
	PayloadsBytesMax = api.MessageBytesMax / 2
	// casTriesMax bounds how often a change is tried again because the task moved in between.
	casTriesMax = 8
)

// Store is what inbound needs of a store.
type Store interface {
	Apply(ctx context.Context, ops []store.Op) ([]error, error)
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error)
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error)
	ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error)
	PayloadBytesMax() int
	PayloadInlineMax() int
	Control(ctx context.Context, kind, name string) (store.Control, error)
	Controls(ctx context.Context, kind string) ([]store.Control, error)
}

// Queue is where tasks go that are due within moments.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Deliver(ctx context.Context, deliveries []queue.Delivery) []error
	CheckPayload(payload []byte) error
}

// Scheduler is told of what was stored. All are hints; the scheduler also finds rows by itself.
type Scheduler interface {
	// Added says that a task waits as a wake-up row alone.
	Added(t *task.Task)
	// Awake says that a task row waits for its wake-up: one with a key, or one whose message could not be
	// sent.
	Awake(t *task.Task)
	// Enqueued says that a task was stored as enqueued, and that its message is on its queue; or as claimed.
	Enqueued(t *task.Task)
	// Done says that tasks have ended, so that nobody needs the wake-up rows that they name.
	Done(rows []task.Task)
}

// Workers is told that a running task should stop.
type Workers interface {
	CancelRequested(t *task.Task)
}

// Config is what an Inbound is made of; the durations and NearDepthMax have defaults.
type Config struct {
	Store     Store
	Queue     Queue
	Catalog   *catalog.Catalog
	Sealer    *task.Sealer
	Scheduler Scheduler
	Workers   Workers
	Matcher   Matcher // nil: all tasks go through their queues
	Clock     clock.Clock
	Hooks     Hooks

	// Process is the name of the scheduler in this process, which then knows what is enqueued here. Empty
	// where there is none.
	Process string

	// Shared says that other processes may be over the same store: what they do to lambdas is known here only
	// a while later.
	Shared bool

	Near         time.Duration // 0: NearDefault; negative: never
	NearDepthMax int           // messages in a queue beyond which near tasks take the way over the store; 0: NearDepthMaxDefault
	Horizon      time.Duration // 0: HorizonDefault
	// WaitLookEvery is the least time between two looks of a Wait at its tasks. 0: WaitLookEveryDefault;
	// negative: none.
	WaitLookEvery time.Duration
	// DeliverDirect is how soon a task of a deliver lambda must be due to go straight to its lambda's queue,
	// at most queue.DelayMax. 0: DeliverDirectDefault; negative: never.
	DeliverDirect time.Duration

	// InboundKey is the key of those who send to the buffer themselves: task.TokenKeyBytes. nil: their ids
	// are unknown here.
	InboundKey []byte
	Buffering  Buffering
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	// Accepted: n tasks of a class of a lambda were stored.
	Accepted func(l *catalog.Entry, priority uint8, n int)
	// Refused: a task was refused.
	Refused func(reason kinesinv1.Reason)
	// Way: n of those were accepted on one of the ways WayBuffer, WayStore, WayFallback, WayDirect, WayQueue.
	Way func(way string, n int)
	// Delivered: a task went straight to the queue of its lambda, where it can be seen that long after its
	// due time.
	Delivered func(t *task.Task, late time.Duration)
	// Consumed: n tasks of the buffer are in the store, or were there already; the oldest was accepted that
	// long ago.
	Consumed func(n int, age time.Duration)
	// SetAside: a message of the buffer, or a task in one, was set aside for one of Reasons.
	SetAside func(ctx context.Context, reason string, err error)
	// Left: n messages stay in the buffer for now, for one of Lefts.
	Left func(why string, n int)
	// Trouble: the buffer or the store failed, and consuming pauses that long.
	Trouble func(ctx context.Context, err error, pause time.Duration)
	// Internal: an item of a call failed for a reason that its answer does not tell; once a call at most.
	Internal func(ctx context.Context, procedure string, err error)
}

// Inbound serves users. It is safe for concurrent use.
type Inbound struct {
	Config

	inboundSealer *task.InboundSealer // nil without an inbound key
	front         *front              // nil without a buffer
	aside         aside
	backlog       backlog
	keyedSeq      atomic.Uint64 // the highest that a task with a key got here

	ends      ends
	intakes   *generations // of Schedule calls
	draining  chan struct{}
	drainOnce sync.Once
}

// New returns an Inbound.
func New(c Config) *Inbound {
	c.Near = cmp.Or(c.Near, NearDefault)
	c.NearDepthMax = cmp.Or(c.NearDepthMax, NearDepthMaxDefault)
	c.Horizon = cmp.Or(c.Horizon, HorizonDefault)
	c.DeliverDirect = min(cmp.Or(c.DeliverDirect, DeliverDirectDefault), queue.DelayMax)
	c.WaitLookEvery = cmp.Or(c.WaitLookEvery, WaitLookEveryDefault)
	in := &Inbound{Config: c, intakes: newGenerations(), draining: make(chan struct{})}
	if c.InboundKey != nil {
		in.inboundSealer = task.NewInboundSealer(c.InboundKey)
	}
	in.Buffering = c.Buffering.withDefaults()
	if c.Buffering.Buffer != nil {
		in.front = newFront(in)
	}
	in.aside = aside{Inbound: in}
	return in
}

// Drain refuses new tasks from now on and ends all waits, so that a process can stop soon.
func (in *Inbound) Drain() { in.drainOnce.Do(func() { close(in.draining) }) }

func (in *Inbound) isDraining() bool {
	select {
	case <-in.draining:
		return true
	default:
		return false
	}
}

// Ended tells those who wait that some task reached its end. It costs next to nothing when nobody waits.
func (in *Inbound) Ended() { in.ends.tell() }

// internal tells of an error that only a hook may see.
func (in *Inbound) internal(ctx context.Context, procedure string, err error) {
	if in.Hooks.Internal != nil {
		in.Hooks.Internal(ctx, procedure, err)
	}
}

func isInternal(p *kinesinv1.Problem) bool {
	return p != nil && p.Reason == kinesinv1.Reason_REASON_INTERNAL
}
