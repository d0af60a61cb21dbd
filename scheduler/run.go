package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// run fires the partition until ctx ends or the partition becomes idle.
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
			l.restFrom = l.tick().Add(l.Window)
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
	l.tellTurns()
}

// rests makes the partition idle if there is nothing to do for long, and was not for a while.
func (l *loop) rests(ctx context.Context) bool {
	now, r := l.tick(), &l.reader
	if l.rest == nil || now < l.restFrom || !l.stats.warm.Load() || r.full.underWay || l.slotCount.underWay || r.request.isOpen() || r.ahead.breaker.Fails() ||
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
	l.tellTurns()
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
	l.reader.ahead.next = 0
	l.reader.full.since = min(l.reader.full.since, now)
}

// readInbox acts on what the loop was told.
func (l *loop) readInbox() {
	news, now := l.inbox.take(), l.now()
	l.looked = news.look
	if len(news.hints) > 0 {
		l.restFrom = l.tick().Add(l.Window)
	}
	if news.makeForeign {
		l.becomeForeign(now, news.lingers)
	}
	if news.checkAll && !l.foreign {
		l.inFlight.checkAll(now)
	}
	for i := range news.hints {
		l.followHint(news.hints[i])
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

func (l *loop) followHint(h hint) {
	t := h.task
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

// idle waits for the next thing to dispatch or to read, a hint, or room in the queue.
func (l *loop) idle(ctx context.Context) {
	timer := l.Clock.NewTimer(idleMax)
	defer timer.Stop()
	began, t := clock.StampOf(timer), l.tick()
	now, reads := l.wall.local(t), l.wall.local(l.nextRead(t))
	until := min(reads, now.Add(idleMax))
	if request := &l.reader.request; request.isOpen() {
		until = now.Add(progressEvery)
		l.readSemaphore.park(request)
		defer l.readSemaphore.unpark(request)
	}
	at, room := l.mode.next(now)
	acts := min(at, l.nextExpiry(now))
	until = min(until, acts)
	if l.held.isPaced || l.held.probes || l.keys != nil {
		acts = min(acts, reads) // scans let what is held go
	}
	clock.ResetFrom(timer, began, until.Sub(now))
	if l.mode.rests() {
		l.resting.Store(&rest{l.looked, acts})
		defer l.resting.Store(nil)
		if l.Hooks.Rests != nil {
			l.Hooks.Rests()
		}
	}
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
	_ = retries.Sleep(ctx, l.Clock, l.failures)
}
