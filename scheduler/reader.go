package scheduler

import (
	"context"
	"time"
)

// scheduleReader is the state of one partition's reads.
type scheduleReader struct {
	ahead   readAhead
	full    fullScan
	limited limitedRead
	request readRequest
	dueSoon dueSoonCount

	unexplained unexplainedLook
}

// nextRead returns when to read next.
func (l *loop) nextRead(now tick) tick {
	if l.foreign {
		return now.Add(idleMax)
	}
	r := &l.reader
	at := r.ahead.next
	if l.buffer.isLow() || r.ahead.partial || l.slotCount.underWay {
		at = now
	}
	if r.full.underWay && l.roomForScan() {
		at = min(at, r.full.page)
	}
	if l.readsSoon() {
		at = min(at, r.limited.next)
	}
	return max(min(at, l.nextPass()), now.Add(r.ahead.breaker.Left(l.Clock)))
}

// read reads the partition when it is time: ahead, or a page of a full scan. A read that fails is tried again
// soon; meanwhile what is known is dispatched.
func (l *loop) read(ctx context.Context) {
	t, r := l.tick(), &l.reader
	now, due := l.wall.local(t), t >= r.ahead.next
	refill := l.buffer.isLow()
	if r.ahead.partial { // it is completed before the next one begins
		due, refill = false, true
	}
	if l.nextRead(t) > t {
		l.readSemaphore.withdraw(&r.request)
		return
	}
	if !l.readSemaphore.acquire(&r.request, !l.stats.warm.Load(), r.ahead.breaker.Fails()) {
		l.widen(now)
		return
	}
	defer l.readSemaphore.release(&r.request)
	if r.full.since.IsZero() {
		r.full.since = now
	}
	if due || refill {
		if err := l.readWindow(ctx, now, due); !l.readDone(ctx, err) {
			return
		}
	}
	if due {
		r.ahead.next = t.Add(l.readEvery())
		l.beginScan(now)
	}
	if l.slotCount.underWay && !l.readDone(ctx, l.readSlotCount(ctx)) {
		return
	}
	if l.readsSoon() && t >= r.limited.next && !l.readDone(ctx, l.readSoon(ctx, t)) {
		return
	}
	if r.full.underWay && r.full.page <= t && l.roomForScan() {
		l.readDone(ctx, l.scanPage(ctx))
	} else if due && r.full.underWay && t >= r.full.begins {
		l.readDone(ctx, l.rescanPage(ctx))
	}
	if l.nextPass() <= t {
		l.readDone(ctx, l.passPage(ctx))
	}
	if due {
		l.readDone(ctx, l.lookForUnexplained(ctx, now))
	}
	manyHeld := l.held.scanning > l.buffer.limit/2                                      // as if there was no room for them
	if (!r.full.underWay || manyHeld || !l.roomForScan()) && !l.stats.warm.Swap(true) { // all is known that there is room for
		notify(l.warmed)
	}
}

// readEvery returns how long after a read-ahead the next one is. The second one comes soon where another process may have
// dispatched tasks of the partition before.
func (l *loop) readEvery() time.Duration {
	second := !l.reader.ahead.repeated && l.Foreign
	l.reader.ahead.repeated = true
	if second {
		return min(SecondRead, l.Window/2)
	}
	return l.Window / 2
}

// readDone notes the outcome of a read, and reports whether it succeeded.
func (l *loop) readDone(ctx context.Context, err error) bool {
	l.stats.progress.mark(l.Clock)
	if ctx.Err() != nil {
		return false
	}
	l.stats.noteRead(l.Clock, err)
	if err != nil {
		l.partitionFailed(ctx, l.partition, err)
		l.reader.ahead.breaker.Failed(l.Clock)
		return false
	}
	l.reader.ahead.breaker.Succeeded()
	return true
}
