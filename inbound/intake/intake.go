// Package intake takes tasks in. It has two callers: inbound for Schedule calls, and ingest for what comes
// out of the inbound buffer. It checks tasks, stores each of them once, sends those that are due within
// moments to their queue, to their consumer or to a reserved slot, and tells the scheduler. It answers no
// calls and never reads the buffer.
package intake

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a task, some of which Config changes.
const (
	// HorizonDefault is how far ahead a task may be due.
	HorizonDefault = 10 * 365 * 24 * time.Hour
	// NearDefault is how soon a task must be due to go to its queue at once.
	NearDefault = 10 * time.Second
	// DeliverDirectDefault is how soon a task of a deliver lambda must be due to go to its queue without a
	// row: as long as a queue can delay it.
	DeliverDirectDefault = queue.DelayMax
	// BufferLifeMax is how long a task may be in the inbound buffer: the 14 days for which SQS keeps a
	// message, and a day for clocks and for rejected tasks.
	BufferLifeMax = 15 * 24 * time.Hour
)

// Ways by which tasks are accepted; see Hooks.Accepted.
const (
	WayBuffer   = "buffer"   // acknowledged by the buffer
	WayStore    = "store"    // acknowledged by the store: due soon, with a key, or there is no buffer
	WayFallback = "fallback" // acknowledged by the store because the buffer refused or was slow
	WayDirect   = "direct"   // sent to the buffer by a client; counted when it is in the store
	WayQueue    = "queue"    // acknowledged by the queue of its deliver lambda
)

// Ways lists the ways by which tasks are accepted.
func Ways() []string { return []string{WayBuffer, WayStore, WayFallback, WayDirect, WayQueue} }

// Store is what the intake needs of a store.
type Store interface {
	store.Writer
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadBytesMax() int
	PayloadInlineMax() int
	PayloadsExpire() bool
}

// Queue takes tasks that are due within moments.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Deliver(ctx context.Context, deliveries []queue.Delivery) []error
	CheckPayload(payload []byte) error
}

// Scheduler is told of what was stored. All calls are hints; the scheduler also finds rows by itself.
type Scheduler interface {
	// Added says that a task waits as a wake-up row alone.
	Added(t *task.Task)
	// Awake says that a task row waits for its wake-up: one with a key, or one whose message was not sent.
	Awake(t *task.Task)
	// Enqueued says that a task was stored as enqueued and its message is about to be sent, or that it was
	// stored as claimed.
	Enqueued(t *task.Task)
	// Done says that tasks have ended, so that the wake-up rows that they name are leftover rows.
	Done(rows []task.Task)
}

// Config is what an Intake is made of; the durations have defaults.
type Config struct {
	Store     Store
	Queue     Queue
	Catalog   *catalog.Catalog
	Sealer    *task.Sealer
	Scheduler Scheduler
	Starter   *dispatcher.Starter
	Clock     clock.Clock
	Hooks     Hooks

	// InboundSealer has the keys of clients that send to the buffer themselves. nil: their ids are unknown
	// here.
	InboundSealer *task.InboundSealer
	// Process is the name of the scheduler in this process, which knows what is enqueued here. Empty: there
	// is none.
	Process string
	// Chains knows what follows tasks. nil: nothing does.
	Chains Chains
	// Shared says that other processes may use the same store: what they do to lambdas is known here a while
	// later.
	Shared bool

	Near    time.Duration // 0: NearDefault; negative: never
	Horizon time.Duration // 0: HorizonDefault
	// DeliverDirect is how soon a task of a deliver lambda must be due to go to its queue without a row, at
	// most queue.DelayMax. 0: DeliverDirectDefault; negative: never.
	DeliverDirect time.Duration
}

// Hooks observe the intake. A nil hook is not called.
type Hooks struct {
	// Accepted: n tasks of a priority of a lambda were accepted by one of Ways.
	Accepted func(l *catalog.Entry, priority uint8, way string, n int)
	// Delivered: a task went to the queue of its deliver lambda, where a consumer sees it that long after its
	// due time.
	Delivered func(t *task.Task, late time.Duration)
}

// Intake takes tasks in. It is safe for concurrent use.
type Intake struct {
	Config

	calls    *calls
	keyedSeq atomic.Uint64 // the highest seq that a task with a key got here
}

// New returns an Intake.
func New(c Config) *Intake {
	c.Near = cmp.Or(c.Near, NearDefault)
	c.Horizon = cmp.Or(c.Horizon, HorizonDefault)
	c.DeliverDirect = min(cmp.Or(c.DeliverDirect, DeliverDirectDefault), queue.DelayMax)
	return &Intake{Config: c, calls: newCalls()}
}

// Settled returns a channel that is closed when all calls that have begun, and may have seen lambdas as they
// were before, are over.
func (in *Intake) Settled() <-chan struct{} { return in.calls.over() }

// Payload reads the payload of a task.
func (in *Intake) Payload(ctx context.Context, t *task.Task) ([]byte, error) {
	if !t.PayloadStoredApart() {
		return t.Payload, nil
	}
	return in.Store.Payload(ctx, t.PayloadID())
}

// PayloadsExpire reports whether payloads are deleted some time after they were needed, without a word.
func (in *Intake) PayloadsExpire() bool { return in.Store.PayloadsExpire() }

// ForgetPayload deletes a payload that no row names any more. A crash may leave the payload behind, which
// costs space and no more.
func (in *Intake) ForgetPayload(ctx context.Context, t *task.Task) {
	if !in.Store.PayloadsExpire() {
		_, _ = in.Store.Apply(ctx, []store.Op{store.ForgetPayload(t)})
	}
}

// ForgetFollow deletes what followed a task, if it was stored apart and no row names it any more.
func (in *Intake) ForgetFollow(ctx context.Context, t *task.Task) {
	if t.Chain.FollowApart() && !in.Store.PayloadsExpire() {
		_, _ = in.Store.Apply(ctx, []store.Op{store.ForgetFollow(t)})
	}
}

// Needs reports whether a task row needs that wake-up row of its task. All that is stored for the same
// instant is one row, whatever its seq.
func Needs(row, wakeup *task.Task) bool {
	return !row.State.IsEnd() && store.KeyOf(row) == store.KeyOf(wakeup)
}
