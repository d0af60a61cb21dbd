// Package inbound serves the TaskService of the wire contract: it schedules tasks, answers what became of
// them, lists and cancels them. It calls the store, the intake, the inbound buffer and the scheduler's hints;
// it never talks to workers.
package inbound

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/gates"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of calls.
const (
	// ScheduleItemsMax is how many tasks one call schedules at most.
	ScheduleItemsMax = api.ItemsMax
	// IDsMax is how many ids one call names at most.
	IDsMax = api.IDsMax
	// ListMax is how many tasks one page of a list has at most; listDefault when nothing is said.
	ListMax     = 1000
	listDefault = 100
	// WaitMax is how long one call waits at most.
	WaitMax = time.Minute
	// PayloadsBytesMax bounds the payloads of one answer, so that it fits a message also in base64.
	PayloadsBytesMax = api.MessageBytesMax / 2
	// ResultsBytesMax bounds the results of one answer. Results that have no room are left out, and may be
	// asked for in another call.
	ResultsBytesMax = api.MessageBytesMax / 8
	// casTriesMax bounds how often a change is tried again because the task moved in between.
	casTriesMax = 8
)

// Store is what inbound needs of a store.
type Store interface {
	intake.Writer
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error)
	ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error)
	ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error)
	Depths() (counts map[task.Partition]store.Depth, ready bool)
	EndedExpire() bool
}

// Workers are told to stop a running task.
type Workers interface {
	CancelRequested(t *task.Task)
}

// Config is what an Inbound is made of.
type Config struct {
	*intake.Intake
	Store     Store
	Workers   Workers
	Hooks     Hooks
	Buffering Buffering
	Pages     *task.PageSealer

	// Rates returns the rates of a lambda in this process; nil: they are not known.
	Rates func(lambda uint32) Rates
	// HeldBack returns what holds tasks back of the partitions of this process; nil: that is not known.
	HeldBack func(lambda uint32) HeldBack
	// CountWorkers returns how many worker processes have a lease for a lambda, of all servers; nil: that is
	// not known.
	CountWorkers func(ctx context.Context, lambda string) (int, error)

	// Gates has the gates that hold tasks back; nil: there are none.
	Gates *gates.Book
	// QueueFull reports whether tasks of a partition wait because their queue has no room; nil: not known.
	QueueFull func(p task.Partition) bool
	// NoWorker reports whether no worker serves a lambda, on any server; nil: that is not known.
	NoWorker func(l *catalog.Entry) bool
	// Admission keeps the quotas of what is scheduled; nil: there are none.
	Admission Admission
	// KeyWait says for people that a task of a lambda which is due waits for its limit key; empty: it does
	// not. nil: that is not known.
	KeyWait func(l *catalog.Entry, t *task.Task) string
	// StartQuota says what the quotas of a priority of a lambda bound for which a due task may wait, such as
	// "starts"; empty: nothing. nil: there are no quotas.
	StartQuota func(p task.Partition) string

	// WaitLookEvery is the least time between two reads of a Wait. 0: WaitLookEveryDefault; negative: none.
	WaitLookEvery time.Duration
}

// Hooks observe an Inbound. A nil hook is not called.
type Hooks struct {
	// Refused: a task was refused.
	Refused func(reason kinesinv1.Reason)
	// Ended: a call ended a task.
	Ended func(t *task.Task)
	// Throttled: an admission quota of a lambda refused a task.
	Throttled func(lambda uint32)
	// Internal: an item of a call failed for a reason that its answer does not give; called once for each
	// call at most.
	Internal func(ctx context.Context, procedure string, err error)
}

// Inbound serves users. It is safe for concurrent use.
type Inbound struct {
	Config

	sender     *bufferSender // nil without a buffer
	waits      waits
	endedLists endedLists
	wholeSets  atomic.Int32 // calls under way that read a whole set
	draining   chan struct{}
	drainOnce  sync.Once
}

// New returns an Inbound.
func New(c Config) *Inbound {
	c.WaitLookEvery = cmp.Or(c.WaitLookEvery, WaitLookEveryDefault)
	c.Buffering = c.Buffering.withDefaults()
	in := &Inbound{Config: c, draining: make(chan struct{})}
	if c.Buffering.Buffer != nil {
		in.sender = newBufferSender(in)
	}
	return in
}

// Drain refuses new tasks from now on and ends all waits, so that a process can stop soon.
func (in *Inbound) Drain() { in.drainOnce.Do(func() { close(in.draining) }) }

// Close sends what still waits for the buffer, until ctx ends.
func (in *Inbound) Close(ctx context.Context) error {
	if in.sender == nil {
		return nil
	}
	return in.sender.Close(ctx)
}

func (in *Inbound) isDraining() bool {
	select {
	case <-in.draining:
		return true
	default:
		return false
	}
}

// Ended tells waiting calls that tasks have ended. It costs next to nothing when no call waits.
func (in *Inbound) Ended(ids []task.ID) { in.waits.tell(ids) }

// internalOnce returns a function that calls the hook with the first internal error of a call.
func (in *Inbound) internalOnce(ctx context.Context, procedure string) func(p *kinesinv1.Problem, err error) {
	told := in.Hooks.Internal == nil
	return func(p *kinesinv1.Problem, err error) {
		if !told && p != nil && p.Reason == kinesinv1.Reason_REASON_INTERNAL {
			told = true
			in.Hooks.Internal(ctx, procedure, err)
		}
	}
}
