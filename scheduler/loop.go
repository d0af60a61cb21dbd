package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// partitionRowsMin and partitionRowsMax bound one partition's share of the rows that are read ahead.
	partitionRowsMin, partitionRowsMax = 64, 4096
	// batchRowsMax bounds one dispatch.
	batchRowsMax = 512
	// idleMax bounds any wait, so that a missed signal costs seconds and not a task.
	idleMax = time.Minute
	// progressEvery is how often a waiting loop shows that it makes progress.
	progressEvery = 10 * time.Second
)

// mode is how the due tasks of a partition are dispatched. Tasks of managed lambdas go on a queue for workers
// and are checked until they end; tasks of deliver lambdas go on a queue of somebody else. Only the
// partition's loop calls it.
type mode interface {
	// dispatchDue dispatches what is due. busy says that there may be more to do at once.
	dispatchDue(ctx context.Context) (busy bool, err error)
	// next returns when dispatchDue has something to do again, at the latest; room, if not nil, is closed when
	// it may have before.
	next(now task.Instant) (at task.Instant, room <-chan struct{})
	// shift is called when the wall clock was set.
	shift(by time.Duration)
	// end waits for what is under way, when the partition goes to another process or ctx ended.
	end(ctx context.Context)
}

// loop is the scheduler loop of one partition: it reads the schedule ahead, waits, dispatches what is due, and
// checks what is in flight. All fields but wake, stats and inbox belong to run's goroutine.
type loop struct {
	*shared

	partition task.Partition
	foreign   bool // another process owns the partition: only tasks that come as hints are dispatched
	delivers  bool // the partition is of a deliver lambda
	mode      mode
	buffer    *buffer
	inFlight  *inFlightSet
	reader    scheduleReader
	wall      loopClock
	failures  int // in a row
	stop      context.CancelFunc

	wake  chan struct{} // has an element when there may be something to do
	stats loopStats
	inbox inbox
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

func (l *loop) run(ctx context.Context) {
	defer l.inFlight.clear()
	defer l.stats.progress.end()
	defer l.readSlots.withdraw(&l.reader.slot)
	for ctx.Err() == nil {
		l.stats.progress.mark(l.Clock)
		switch busy, err := l.round(ctx); {
		case err != nil:
			l.pause(ctx, err)
		case busy:
			l.failures = 0
		default:
			l.failures = 0
			l.idle(ctx)
		}
	}
	l.mode.end(ctx)
	l.stats.oldestSend.Store(0)
}

// round reads and dispatches once. What is known is dispatched even when reading fails.
func (l *loop) round(ctx context.Context) (busy bool, err error) {
	l.readClock()
	if l.foreign {
		l.extendForeign()
	}
	l.readInbox()
	l.read(ctx)
	l.publish()
	l.stats.progress.mark(l.Clock)
	busy, err = l.mode.dispatchDue(ctx)
	l.publish()
	return busy, err
}

func (l *loop) publish() {
	l.stats.oldestSend.Store(int64(l.buffer.oldestSend()))
	l.stats.inFlight.Store(int64(len(l.inFlight.byID)))
}

// add puts a wake-up row that is not in flight into the buffer.
func (l *loop) add(row *task.Task) {
	e := entry{at: l.delayed(row.WakeRow.At), id: row.ID, row: row, early: row.State == task.Scheduled && row.Attempt == 0, sends: true}
	switch old := row.WakeRow.At < l.reader.full.since; {
	case row.Key != "" || row.IsBare() || row.Attempt > 0 || row.State != task.Scheduled && row.State != task.Acquired:
		e.mustRead, e.sends = true, !old
	case old && !l.delivers:
		e.mustRead, e.sends = true, false
	}
	e.early = e.early || l.delivers
	if l.foreign && e.early {
		e.at = e.at.Add(l.Lead / 2) // it is dispatched that much before its time
	}
	l.buffer.add(e)
}

// await has a task row checked when the task wakes. Where there is no room for one more in flight, a task that
// wakes soon waits in the buffer.
func (l *loop) await(t *task.Task, sends bool) {
	if t.Wake == t.WakeRow.At && !l.foreign && !l.buffer.covers(t.Wake) { // a read-ahead brings its wake-up row
		l.inFlight.drop(t.ID)
		return
	}
	if !l.inFlight.put(l.inFlightAt(t, t.Wake)) && t.Wake <= l.now().Add(l.Window) {
		l.buffer.add(entry{at: l.delayed(t.Wake), id: t.ID, row: t, mustRead: true, sends: sends})
	}
}

// inFlightAt returns a task as one in flight that is checked then.
func (l *loop) inFlightAt(t *task.Task, at task.Instant) inFlightTask {
	f := inFlightTask{
		checkAt: l.delayed(at), id: t.ID, wakeRowAt: t.WakeRow.At, rowAt: at,
		attempt: t.Attempt, firstSeen: l.inFlight.firstSeen(t.ID, t.Attempt, l.now()), waiting: isWaiting(t) && at == t.Wake,
	}
	if t.State == task.Scheduled && t.Attempt == 0 && !t.Enqueued.IsZero() {
		f.sentUntil = t.Enqueued.Add(task.UndispatchedMax)
	}
	return f
}

// isWaiting reports whether a task waits in its row until it wakes.
func isWaiting(t *task.Task) bool {
	return t.State == task.RetriableFailure || t.State == task.Scheduled
}

// knows reports whether a wake-up row that a scan has found is known: its task is in flight, or acquired.
func (l *loop) knows(row *task.Task) bool {
	if l.inFlight.noteScanned(row) {
		return true
	}
	_, acquired := l.acquired.Load(row.ID)
	return acquired
}

// idle waits for the next thing to dispatch or to read, a hint, or room in the queue.
func (l *loop) idle(ctx context.Context) {
	timer := l.Clock.NewTimer(idleMax)
	defer timer.Stop()
	began, now := clock.StampOf(timer), l.now()
	until := min(l.nextRead(now), now.Add(idleMax))
	if slot := &l.reader.slot; slot.isOpen() {
		until = now.Add(progressEvery)
		l.readSlots.park(slot)
		defer l.readSlots.unpark(slot)
	}
	at, room := l.mode.next(now)
	until = min(until, at)
	clock.ResetFrom(timer, began, until.Sub(now))
	select {
	case <-timer.C():
	case <-l.wake:
	case <-room:
	case <-ctx.Done():
	}
}

// pause backs a failing partition off by itself, so that no other partition waits for it.
func (l *loop) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.partitionFailed(ctx, l.partition, err)
	l.failures++
	_ = clock.Sleep(ctx, l.Clock, retryPause(l.Clock, l.failures))
}
