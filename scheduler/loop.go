package scheduler

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gates"
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
// and checks what is in flight. All fields but wake, stats, limitsKeys and inbox belong to run's goroutine.
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
	restFrom  task.Instant                   // when that is tried next

	wake  chan struct{} // has an element when there may be something to do
	stats loopStats
	inbox inbox
	group atomic.Pointer[exclusiveGroup] // that of inFlight.slots, for others

	limitsKeys atomic.Bool // keys is not nil
}

func (l *loop) run(ctx context.Context) {
	defer l.stop()
	defer l.inFlight.clear()
	defer l.closeKeys()
	defer l.stats.progress.end()
	defer l.readSemaphore.withdraw(&l.reader.request)
	for ctx.Err() == nil {
		l.stats.progress.mark(l.Clock)
		switch busy, err := l.round(ctx); {
		case err != nil:
			l.pause(ctx, err)
		case busy:
			l.failures = 0
			l.restFrom = l.now().Add(l.Window)
		default:
			l.failures = 0
			if l.rests(ctx) {
				return
			}
			l.idle(ctx)
		}
	}
	l.mode.end(ctx)
	l.stats.oldestSend.Store(0)
}

// rests makes the partition idle if there is nothing to do for long, and was not for a while.
func (l *loop) rests(ctx context.Context) bool {
	now, r := l.now(), &l.reader
	early := now < l.restFrom && l.restFrom <= now.Add(ForecastSpan) // the clock may be set back
	if l.rest == nil || early || !l.stats.warm.Load() || r.full.underWay || l.slotCount.underWay || r.request.isOpen() || r.ahead.breaker.failures > 0 ||
		l.buffer.entries.Len() > 0 || len(l.inFlight.byID) > 0 || !l.mode.rests() || l.keys != nil && !l.keys.queue.isEmpty() {
		return false
	}
	l.restFrom = now.Add(l.Window)
	return l.rest(ctx)
}

// round reads and dispatches once. Known tasks are dispatched even when reading fails.
func (l *loop) round(ctx context.Context) (busy bool, err error) {
	l.readClock()
	l.followGates()
	l.followSlots()
	l.followLimits()
	if l.foreign {
		l.extendForeign()
	}
	l.readInbox()
	l.takeExpired()
	l.read(ctx)
	l.readClock() // a read may take long: what it brought is judged by no clock of before it was set
	l.publish()
	l.stats.progress.mark(l.Clock)
	busy, err = l.mode.dispatchDue(ctx)
	l.publish()
	return busy, err
}

func (l *loop) publish() {
	l.stats.oldestSend.Store(int64(l.buffer.oldestSend()))
	l.stats.inFlight.Store(int64(len(l.inFlight.byID)))
	if l.held.some {
		l.publishHeld()
	}
	l.publishKeys()
}

// readClock begins a round, or its second half, which dispatches. If the wall clock was set since it was last
// read here, what was planned is planned anew. A suspension of the machine looks the same and needs the same.
func (l *loop) readClock() {
	now, step := l.wall.read(l.Clock)
	if step.Abs() < clock.StepMin {
		return
	}
	l.inFlight.shift(now, step)
	l.mode.shift(step)
	if l.keys != nil {
		l.keys.queue.freedAll() // some wait for an instant of their rate
	}
	l.reader.ahead.next, l.reader.ahead.breaker.retry = 0, 0
	full := &l.reader.full
	if full.since = min(full.since, now); step < 0 {
		full.begins = min(full.begins, now.Add(full.every))
	}
}

// now returns what the wall clock shows, or would show if it was not set in this round.
func (l *loop) now() task.Instant { return l.wall.local(clock.Steady(l.Clock)) }

// nowWithoutSteps returns now less what the wall clock was set forward in the last store.CallMax. By it no
// call that is under way looks older than it is.
func (l *loop) nowWithoutSteps() task.Instant {
	if clock.Steady(l.Clock) >= l.wall.stepped.Add(store.CallMax) {
		return l.now()
	}
	return l.now().Add(-l.wall.forward)
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

// readInbox acts on what the loop was told.
func (l *loop) readInbox() {
	news, now := l.inbox.take(), l.now()
	if len(news.hints) > 0 {
		l.restFrom = now.Add(l.Window)
	}
	if news.makeForeign {
		l.becomeForeign(now, news.lingers)
	}
	if news.checkAll && !l.foreign {
		l.inFlight.checkAll(now)
	}
	for i := range news.hints {
		l.followHint(&news.hints[i])
	}
	for _, k := range news.done {
		if !l.inFlight.has(k.id, k.at) {
			l.buffer.dropUpTo(k.rowKey, k.seq)
			if l.keys != nil && k.limitKey != "" {
				l.keys.queue.remove(k.limitKey, k.rowKey)
			}
		} else if l.inFlight.byID[k.id].wakeRowSeq <= k.seq {
			l.inFlight.drop(k.id)
		}
	}
	if !news.missed.IsZero() {
		l.reader.ahead.restartAt(news.missed)
	}
}

func (l *loop) followHint(h *hint) {
	t := &h.task
	_, known := l.inFlight.byID[t.ID]
	noScan := known || t.Wake != t.WakeRow.At // no scan brings it at its time
	if l.limited && l.inFlight.isOlder(t) {
		return // it would free the slot of a later attempt
	}
	switch {
	case h.kind == hintPutBack || h.kind == hintUnsent:
		l.followPutBack(t, h.kind == hintPutBack)
	case h.kind == hintSent || h.kind == hintAwake && noScan:
		l.await(t, h.kind == hintAwake)
	case l.buffer.has(keyOf(t)) && !l.knows(t) && !l.passesOver(t):
		l.add(t)
	}
}

// add puts a wake-up row that is not in flight into the buffer. The task of a row that is older than this
// process's ownership may have been dispatched, so its task row is read first, and it probably sends nothing.
func (l *loop) add(row *task.Task) {
	e := entry{at: l.delayed(row.WakeRow.At), id: row.ID, row: row, early: row.State == task.Scheduled && row.Attempt == 0, sends: true}
	mustRead, old := l.mustRead(row)
	e.mustRead, e.sends = mustRead, !mustRead || !old
	e.early = e.early || l.delivers
	if g := l.gateOf(row, l.now()); g != nil && g.Action == gates.Drop {
		e.early, e.sends = l.delivers, false
	}
	if l.foreign && e.early {
		e.at = e.at.Add(l.Lead / 2) // it is dispatched that much before its time
	}
	l.buffer.add(e)
}

// mustRead reports whether the task of a wake-up row may have a task row, which has to be read first. old
// says that the row is older than this process's ownership, or than the gate that holds it.
func (l *loop) mustRead(row *task.Task) (must, old bool) {
	old = row.WakeRow.At < l.reader.full.since || l.mayBeLeftover(row)
	if hasTaskRow(row) || row.WakeRow.Seq > 1 && !l.delivers || row.Attempt > 0 || row.State != task.Scheduled && row.State != task.Acquired {
		return true, old
	}
	return old && !l.delivers, old
}

// await has a task row checked when the task wakes. Where there is no room for one more in flight, a task
// that wakes soon waits in the buffer.
func (l *loop) await(t *task.Task, sends bool) {
	if isWaiting(t) && t.Wake <= l.now() && l.isPaused(t, true) {
		l.leave(t)
		return
	}
	if t.Wake == t.WakeRow.At && !l.foreign && !l.buffer.covers(t.Wake) && !holdsSlot(t) { // a read-ahead brings its wake-up row
		l.inFlight.drop(t.ID)
		return
	}
	if !l.inFlight.put(l.inFlightAt(t, t.Wake)) && t.Wake <= l.now().Add(l.Window) {
		l.buffer.add(entry{at: l.delayed(t.Wake), id: t.ID, row: t, mustRead: true, sends: sends})
	}
}

// delayed returns when to act on a row that wakes at an instant: in a foreign partition its owner has the
// first try.
func (l *loop) delayed(at task.Instant) task.Instant {
	if l.foreign {
		return at.Add(foreignDelay)
	}
	return at
}

// becomeForeign keeps of a partition that was taken over only what the new owner may not know yet.
func (l *loop) becomeForeign(now task.Instant, lingers time.Duration) {
	l.foreign = true
	l.reader.full.underWay = false
	if l.followSlots(); l.limited { // the new owner alone starts its tasks
		l.buffer.dropAfter(rowKey{}, func(entry) bool { return true })
	}
	l.buffer.dropAfter(endOf(now.Add(lingers)), func(e entry) bool { return !e.mustRead })
	l.inFlight.dropLaterThan(now.Add(l.Window)) // retries that only this process knows of wake by then
	l.extendForeign()
}

// extendForeign keeps the high-water mark at half a window: what is due later the owner finds in time.
func (l *loop) extendForeign() {
	l.buffer.truncated = false
	l.buffer.extend(endOf(l.now().Add(l.Window / 2)))
}

// inFlightAt returns a task as one in flight that is checked then.
func (l *loop) inFlightAt(t *task.Task, at task.Instant) inFlightTask {
	f := inFlightTask{
		checkAt: l.delayed(at), id: t.ID, wakeRowAt: t.WakeRow.At, wakeRowSeq: t.WakeRow.Seq, rowAt: at,
		limitKey: t.LimitKey,
		seq:      t.Seq, holdsSlot: holdsSlot(t), attempt: t.Attempt, firstSeen: l.inFlight.firstSeen(t.ID, t.Attempt, l.now()), waiting: isWaiting(t) && at == t.Wake,
	}
	if t.State == task.Scheduled && t.Attempt == 0 && !t.Enqueued.IsZero() {
		f.sentUntil = t.NotPastExpiry(t.Enqueued.Add(task.UndispatchedMax))
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
	if request := &l.reader.request; request.isOpen() {
		until = now.Add(progressEvery)
		l.readSemaphore.park(request)
		defer l.readSemaphore.unpark(request)
	}
	at, room := l.mode.next(now)
	until = min(until, at, l.nextExpiry(now))
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
	l.inFlight.slots.waitNot()
	_ = clock.Sleep(ctx, l.Clock, retryPause(l.Clock, l.failures))
}
