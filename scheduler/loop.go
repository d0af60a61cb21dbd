package scheduler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// partitionRowsMin and partitionRowsMax bound one partition's share of the rows that are read ahead.
	partitionRowsMin, partitionRowsMax = 64, 4096
	// batchRowsMax bounds one dispatch.
	batchRowsMax = 512
	// idleMax bounds any wait, so that a missed signal costs seconds and not a task.
	idleMax = time.Minute
	// foreignDelay is how much later a task of a foreign partition is dispatched, so that an owner that knows
	// it is first. A wake-up then costs a read.
	foreignDelay = 50 * time.Millisecond
	// progressEvery is how often a waiting loop shows that it makes progress.
	progressEvery = 10 * time.Second
)

// mode is how the due tasks of a partition are dispatched. Tasks of managed lambdas go on a queue for workers
// and are checked until they end; tasks of deliver lambdas go on a queue of somebody else. Only the
// partition's loop calls it.
type mode interface {
	// dispatchDue dispatches what is due. busy says that there may be more to do at once.
	dispatchDue(ctx context.Context) (busy bool, err error)
	// next returns when dispatchDue has something to do again, at the latest; room, if not nil, is closed
	// when it may have before.
	next(now task.Instant) (at task.Instant, room <-chan struct{})
	// shift is called when the wall clock was set.
	shift(by time.Duration)
	// rests reports whether nothing is under way that is not in flight.
	rests() bool
	// end waits for what is under way, when the partition goes to another process or ctx ended.
	end(ctx context.Context)
}

// loop is the scheduler loop of one partition: it reads the schedule ahead, waits, dispatches what is due,
// and checks what is in flight. All fields but resting, wake, stats, limitsKeys and inbox belong to run's goroutine.
type loop struct {
	*shared

	partition task.Partition
	foreign   bool // another process owns the partition: only tasks that come as hints are dispatched
	delivers  bool // the partition is of a deliver lambda
	mode      mode
	buffer    *buffer
	inFlight  *inFlightSet
	reader    scheduleReader
	held      heldRows
	keys      *loopKeys // nil: the lambda does not limit its limit keys
	slotCount slotCount
	limited   bool // a concurrency quota bounds how many of its tasks run
	wall      loopClock
	failures  int // in a row
	stop      context.CancelFunc
	rest      func(ctx context.Context) bool // makes the partition idle, so that the loop ends; nil: it never is
	restFrom  tick                           // when that is tried next

	looked  uint64               // the newest look that was made
	resting atomic.Pointer[rest] // nil: it works

	wake  chan struct{} // has an element when there may be something to do
	stats loopStats
	inbox inbox
	turns *turns
	group atomic.Pointer[exclusiveGroup] // that of inFlight.slots, for others

	limitsKeys atomic.Bool // keys is not nil
}

// now returns what the wall clock shows, or would show if it was not set in this round.
func (l *loop) now() task.Instant { return l.wall.local(l.tick()) }

func (l *loop) tick() tick { return tickOf(l.Clock) }

// nowWithoutSteps returns now less what the wall clock was set forward in the last store.CallMax. By it no
// call that is under way looks older than it is.
func (l *loop) nowWithoutSteps() task.Instant {
	if l.tick() >= l.wall.stepped.Add(store.CallMax) {
		return l.now()
	}
	return l.now().Add(-l.wall.forward)
}

// wakeKey returns the key of a row of the partition.
func (l *loop) wakeKey(k rowKey) store.WakeKey {
	return store.WakeKey{Partition: l.partition, Wake: k.at, ID: k.id}
}

// hint tells the loop of a row; false if it has ended, because its partition is idle.
func (l *loop) hint(t *task.Task, kind hintKind) bool {
	known := l.inbox.add(t, kind)
	notify(l.wake)
	return known
}

// checkAllInFlight has all tasks in flight read again, because the process that changed them last may be
// gone.
func (l *loop) checkAllInFlight() {
	l.inbox.mu.Lock()
	l.inbox.checkAll = true
	l.inbox.mu.Unlock()
	notify(l.wake)
}

// makeForeign tells the loop that another process has taken the partition over, and for how long what is
// known here is still fired.
func (l *loop) makeForeign(lingers time.Duration) {
	l.inbox.mu.Lock()
	l.inbox.makeForeign, l.inbox.lingers = true, lingers
	l.inbox.mu.Unlock()
	notify(l.wake)
}

// delayed returns when to act on a row that wakes at an instant: in a foreign partition its owner has the
// first try.
func (l *loop) delayed(at task.Instant) task.Instant {
	if l.foreign {
		return at.Add(foreignDelay)
	}
	return at
}

// inFlightAt returns a task as one in flight that is checked then.
func (l *loop) inFlightAt(t *task.Task, at task.Instant) inFlightTask {
	f := inFlightTask{
		checkAt: l.delayed(at), id: t.ID, wakeRowAt: t.WakeRow.At, wakeRowSeq: t.WakeRow.Seq, rowAt: at,
		limitKey: t.LimitKey,
		seq:      t.Seq, holdsSlot: holdsSlot(t), attempt: t.Attempt, firstSeen: l.inFlight.firstSeen(t.ID, t.Attempt, l.now()), waiting: t.State.IsWaiting() && at == t.Wake,
	}
	if t.State == task.Scheduled && t.Attempt == 0 && !t.Enqueued.IsZero() {
		f.sentUntil = t.NotPastExpiry(t.Enqueued.Add(task.UndispatchedMax))
	}
	return f
}
