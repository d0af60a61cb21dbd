package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A partition's schedule is read in two ways. A read-ahead goes every half window from a margin before now, or
// from the first row that is not known if that is earlier, to the window's end. A full scan reads all that lies
// before, from the head: when the partition comes to this process and every few minutes. It finds what is in
// flight, what was stored late, and what a crash left behind. So neither a backlog nor tasks that run for hours
// are read with every read-ahead.

const (
	// readMargin is how long before now a read-ahead begins. A row that is stored later than that after its
	// wake-up comes to the owner as a hint, or waits for the next full scan.
	readMargin = time.Minute
	// SecondLook is how long after the first read-ahead of a partition the second one is: it finds what only
	// the previous owner was told of in the meantime.
	SecondLook = 2 * time.Second
)

// scheduleReader is the state of one partition's reads.
type scheduleReader struct {
	ahead   readAhead
	full    fullScan
	slot    slotRequest
	dueSoon dueSoonCount
}

// readAhead is the state of one partition's read-aheads.
type readAhead struct {
	missed   task.Instant // a row at or behind it may be unknown though the horizon covers it; zero: none
	through  task.Instant // where the last one ended; zero: there was none
	next     task.Instant
	repeated bool    // there was a first one, so that the second one is planned
	breaker  breaker // for all reads of the schedule
}

// restartAt has a read-ahead begin at once, and no later in the schedule than at an instant.
func (r *readAhead) restartAt(at task.Instant) {
	if r.missed.IsZero() || at < r.missed {
		r.missed = at
	}
	r.next = 0
}

// nextRead returns when to read next.
func (l *loop) nextRead(now task.Instant) task.Instant {
	if l.foreign {
		return now.Add(idleMax)
	}
	r := &l.reader
	at := r.ahead.next
	if l.buffer.isLow() {
		at = now
	}
	if r.full.underWay && l.roomForScan() {
		at = min(at, max(r.full.page, now))
	}
	return r.ahead.breaker.notBefore(now, at)
}

// read reads the partition when it is time: ahead, or a page of a full scan. A read that fails is tried again
// soon; meanwhile what is known is dispatched.
func (l *loop) read(ctx context.Context) {
	now, r := l.now(), &l.reader
	due := now >= r.ahead.next || r.ahead.next > now.Add(l.Window/2) // the clock may be set back
	refill := l.buffer.isLow()
	if l.foreign || r.ahead.breaker.isOpen(now) || !due && !refill && !l.isScanDue(now) {
		l.readSlots.withdraw(&r.slot)
		return
	}
	if !l.readSlots.take(&r.slot, !l.stats.warm.Load(), r.ahead.breaker.failures > 0) {
		l.widen(now)
		return
	}
	defer l.readSlots.done(&r.slot)
	if r.full.since.IsZero() {
		r.full.since = now
	}
	if due || refill {
		if err := l.readWindow(ctx, now, due); !l.readDone(ctx, err) {
			return
		}
	}
	if due {
		r.ahead.next = now.Add(l.readEvery())
		r.full.begin(now)
	}
	if l.isScanDue(now) {
		l.scanPage(ctx)
	} else if due && r.full.underWay && now >= r.full.begins {
		l.rescanPage(ctx)
	}
	if (!r.full.underWay || !l.roomForScan()) && !l.stats.warm.Swap(true) { // all is known that there is room for
		notify(l.warmed)
	}
}

// readEvery returns how long after a read-ahead the next one is. The second one comes soon where others fired
// the partition before.
func (l *loop) readEvery() time.Duration {
	second := !l.reader.ahead.repeated && l.Foreign
	l.reader.ahead.repeated = true
	if second {
		return min(SecondLook, l.Window/2)
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
		l.reader.ahead.breaker.open(l.Clock, l.now())
		return false
	}
	l.reader.ahead.breaker.close()
	return true
}

// widen moves the horizon of a partition that waits for a read slot, so that it gets hints of what is due soon.
// Rows that were stored earlier are found by the read-ahead. A full buffer keeps its horizon, because it has
// left rows out.
func (l *loop) widen(now task.Instant) {
	if end := endOf(now.Add(l.Window)); !l.buffer.truncated && !l.buffer.has(end) {
		l.buffer.extend(end)
	}
}

// readStart returns the key behind which a read-ahead begins.
func (l *loop) readStart(now task.Instant) rowKey {
	from := now.Add(-readMargin)
	if r := &l.reader.ahead; !r.through.IsZero() {
		from = min(from, r.through) // it may be long ago, when the store was away
	}
	if missed := l.reader.ahead.missed; !missed.IsZero() {
		from = min(from, missed-1)
	}
	start := endOf(max(from, 0))
	if end := l.buffer.end(); l.buffer.truncated && end.less(start) {
		return end
	}
	return start
}

// readWindow reads ahead or, when no read-ahead is due, goes on where the last one ran out of room. It takes in
// the rows up to the window's end, as far as there is room, and forgets known rows of that range that are gone.
func (l *loop) readWindow(ctx context.Context, now task.Instant, due bool) error {
	from, until := l.buffer.end(), endOf(now.Add(l.Window))
	if due {
		from = l.readStart(now)
	}
	before := l.buffer.extend(until)
	l.inFlight.beginScan()
	rows, end, err := l.unknownRows(ctx, now, from, until)
	if err != nil {
		l.buffer.extend(before)
		return err
	}
	l.buffer.dropAfter(from, l.isFoundAgain)
	l.buffer.truncated = false
	l.buffer.extend(until)
	l.reader.ahead.through = until.at
	if due {
		l.reader.ahead.missed = 0
	}
	for i := range rows {
		if l.buffer.has(keyOf(&rows[i])) {
			l.add(&rows[i])
		}
	}
	if end.less(until) {
		l.buffer.lower(end)
	}
	if due {
		l.inFlight.endScan(from, end)
	}
	return nil
}

// isFoundAgain reports whether a scan finds an entry again: by its wake-up row, unless its task is in flight.
func (l *loop) isFoundAgain(e entry) bool {
	_, inFlight := l.inFlight.byID[e.id]
	return !inFlight && e.at == e.row.WakeRow.At
}

// unknownRows scans from one key to another, until there are enough rows that are not known, and now and then
// further, to count what is due soon. It returns those rows, and up to where there are no others.
func (l *loop) unknownRows(ctx context.Context, now task.Instant, from, until rowKey) (unknown []task.Task, end rowKey, err error) {
	after := store.WakeKey{Wake: from.at, ID: from.id}
	to, limit, counts := l.reader.dueSoon.span(now, until.at, l.buffer.limit)
	enough := limit
	var counted []task.Task
	for {
		page, err := l.Store.ScanSchedule(ctx, l.partition, after, to, limit)
		l.stats.progress.mark(l.Clock)
		if err != nil {
			return nil, rowKey{}, err
		}
		for i := range page {
			if l.knows(&page[i]) {
				continue
			}
			if counts {
				counted = append(counted, page[i])
			}
			if page[i].WakeRow.At <= until.at {
				unknown = append(unknown, page[i])
			}
		}
		full := len(page) == limit
		if counts && (!full || len(counted) >= enough) {
			l.stats.dueSoon.Store(l.reader.dueSoon.count(l.Clock, now, counted, full))
			to, limit, counts = until.at, l.buffer.limit, false
		}
		if !full || page[len(page)-1].WakeRow.At > to {
			return unknown, until, nil
		}
		after = store.KeyOf(&page[len(page)-1])
		if len(unknown) >= l.buffer.limit {
			return unknown, rowKey{after.Wake, after.ID}, nil
		}
	}
}
