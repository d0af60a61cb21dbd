package inbound

import (
	"cmp"
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Store is what inbound needs of a store.
type Store interface {
	store.Writer
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

// WaitLookEveryDefault bounds how often a Wait reads tasks that it was told have ended.
const WaitLookEveryDefault = 10 * time.Millisecond

// Config is what an Inbound is made of.
type Config struct {
	*intake.Intake
	Store   Store
	Workers Workers
	// Waits are told of the ends of tasks. nil: of those alone that end here.
	Waits     *Waits
	Hooks     Hooks
	Buffering Buffering
	Pages     task.Seal

	// Rates returns the rates of a lambda in this process; nil: they are not known.
	Rates func(lambda uint32) Rates
	// Deaths returns how many tasks of a lambda died in the last hour and day, on all servers; nil: that is not
	// known.
	Deaths func(ctx context.Context, lambda uint32) (hour, day int64)
	// HeldBack returns what holds tasks back of the partitions of this process; nil: that is not known.
	HeldBack func(lambda uint32) HeldBack
	// CountWorkers returns how many worker processes have a lease for a lambda, of all servers; nil: that is
	// not known.
	CountWorkers func(ctx context.Context, lambda string) (int, error)

	// Gates returns the gates of a lambda, which hold its tasks back; nil: there are none.
	Gates func(lambda uint32) hold.Gates
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
	// Callers is the clock by which a Wait waits; nil: that of the Intake.
	Callers clock.Clock
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

// Defaults of Buffering.
const (
	BufferLingerDefault   = 3 * time.Millisecond
	BufferPatienceDefault = 80 * time.Millisecond
	BufferWaitDefault     = 500 * time.Millisecond
)

// Buffering says how tasks get into the buffer. Its zero value is a server without one.
type Buffering struct {
	// Buffer holds what was accepted and is not in the store; nil: there is none.
	Buffer buffer.Buffer
	// Backlog tells what is still in the Buffer. It is required, also without one.
	Backlog Backlog
	// Linger is how long a Schedule call waits for others to share its message. 0: BufferLingerDefault;
	// negative: none.
	Linger time.Duration
	// Patience is how much longer it waits while others keep coming, until ten tasks go together; a caller
	// that calls only after each answer is not kept for it. 0: BufferPatienceDefault; negative, or without
	// Linger: none.
	Patience time.Duration
	// Wait is the time after which a Schedule call writes to the store what the buffer has not acknowledged.
	// 0: BufferWaitDefault.
	Wait time.Duration
}

// Backlog is what is known of the tasks in the buffer.
type Backlog interface {
	// Passed reports whether what was accepted until a moment has come out of the buffer, as far as can be
	// seen here.
	Passed(until task.Instant) bool
}

func (b Buffering) withDefaults() Buffering {
	b.Linger = max(0, cmp.Or(b.Linger, BufferLingerDefault))
	b.Patience = max(0, cmp.Or(b.Patience, BufferPatienceDefault))
	if b.Linger == 0 {
		b.Patience = 0
	}
	b.Wait = cmp.Or(b.Wait, BufferWaitDefault)
	return b
}

// Rates are what a process saw of a lambda in the last minute.
type Rates struct {
	Started, Ended, Failed float64 // first starts, ends and failed attempts a second
	Throttled              float64 // tasks a second that admission quotas refused
	Lateness50, Lateness99 time.Duration

	Priorities [task.PrioritiesMax]PriorityRates
}

// PriorityRates are those of one priority.
type PriorityRates struct {
	Started float64 // first starts a second
	Spent   float64 // starts a second that were taken of its quotas
}

// HeldBack is how many tasks are held back of the partitions of this process, as far as they were read.
type HeldBack struct {
	Gates   int64 // by all gates of the lambda together
	Keys    int64 // by limit keys
	Retries int64 // by the retry budget
	// Unexplained are tasks that are due and do not start, and that nothing holds.
	Unexplained int64
	Quotas      [task.PrioritiesMax]int64
	QueueFull   [task.PrioritiesMax]bool
	Limits      []StartLimit // the quotas of starts of the lambda
}

// StartLimit is a quota of starts, or of what runs at once.
type StartLimit struct {
	Priority string // empty: of all together
	Class    uint8  // the index of Priority

	// Rate bounds starts per second, Concurrency how many tasks run at once; 0: nothing.

	Rate        float64
	Concurrency uint32
}

// Admission keeps the quotas of what is scheduled.
type Admission interface {
	// Take admits a task of an identity, or says after what time it will; refused is how many tasks of the
	// same call wait as well.
	Take(lambda uint32, identity string, refused int) (after time.Duration, ok bool)
}
