package scheduler

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A partition's schedule is read in two ways. A read-ahead goes every half window from a margin before now,
// or from the first row that is not known if that is earlier, to the window's end. A full scan reads all that
// lies before, from the head: when the partition comes to this process and every few minutes. It finds what
// is in flight, what was stored late, and what a crash left behind. So neither a backlog nor tasks that run
// for hours are read with every read-ahead.

// widen moves the high-water mark of a partition that waits for its turn to read, so that it gets hints of
// what is due soon. Rows that were stored earlier are found by the read-ahead. A full buffer keeps its mark,
// because it has left rows out.
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
	start := l.held.readFrom(endOf(max(from, 0)), l.tick())
	if missed := l.reader.ahead.missed; !missed.IsZero() && missed <= start.at {
		start = endOf(max(missed-1, 0))
	}
	if end := l.buffer.end(); l.buffer.truncated && end.less(start) {
		return end
	}
	return start
}

// readWindow reads ahead or, when no read-ahead is due, goes on where the last one ran out of room. It takes
// in the rows up to the window's end, as far as there is room, and forgets known rows of that range that are
// gone.
func (l *loop) readWindow(ctx context.Context, now task.Instant, due bool) error {
	from, until := l.buffer.end(), endOf(now.Add(l.Window))
	if due {
		from = l.readStart(now)
	}
	before := l.buffer.extend(until)
	l.inFlight.beginScan()
	rows, end, err := l.unknownRows(ctx, now, from, until, due)
	if err != nil {
		l.buffer.extend(before)
		return err
	}
	l.buffer.dropAfter(from, l.isFoundAgain)
	l.buffer.truncated = false
	l.buffer.extend(until)
	l.reader.ahead.through = until.at
	l.readUpTo(end, now)
	if due {
		l.reader.ahead.missed = 0
	}
	for _, row := range rows {
		if l.buffer.has(keyOf(row)) {
			l.add(row)
		}
	}
	if end.less(until) {
		l.buffer.lower(end)
	}
	if due {
		l.inFlight.endScan(from, end)
	}
	l.reader.ahead.partial = l.passesRows() && end.less(until) && len(rows) < l.buffer.limit && !l.buffer.end().less(end)
	return nil
}

// isFoundAgain reports whether a scan finds an entry again: by its wake-up row, unless its task is in flight.
func (l *loop) isFoundAgain(e entry) bool {
	_, inFlight := l.inFlight.byID[e.id]
	return !inFlight && e.at == e.row.WakeRow.At
}

// unknownRows scans from one key to another, until there are enough rows that are not known. With whole, for
// a scan that begins where a read-ahead does, it also goes further now and then, to count what is due soon.
// It returns those rows, and up to where there are no others.
func (l *loop) unknownRows(ctx context.Context, now task.Instant, from, until rowKey, whole bool) (unknown []*task.Task, end rowKey, err error) {
	after := l.wakeKey(from)
	to, limit, counts := until.at, l.buffer.limit, false
	if whole {
		to, limit, counts = l.reader.dueSoon.span(l.Clock, now, until.at, l.buffer.limit)
	}
	enough := limit
	var counted []task.Instant // wake-ups of what is due soon
	for pages := 1; ; pages++ {
		page, err := l.Store.ScanSchedule(ctx, l.partition, after, to, limit)
		l.stats.progress.mark(l.Clock)
		if err != nil {
			return nil, rowKey{}, err
		}
		for i := range page {
			passes := l.passesOverAhead
			if page[i].WakeRow.At > until.at {
				passes = l.passesOver // it is not held yet, and is counted when the window reaches it
			}
			if l.knows(&page[i]) || passes(&page[i]) {
				continue
			}
			if whole && (counts || page[i].WakeRow.At <= until.at) {
				counted = append(counted, page[i].WakeRow.At)
			}
			if page[i].WakeRow.At <= until.at {
				unknown = append(unknown, &page[i])
			}
		}
		full := len(page) == limit
		last := l.passesRows() && pages >= heldPagesMax
		if counts && (!full || last || len(counted) >= enough) {
			l.reader.dueSoon.counted(l.Clock, counted, full)
			l.storeDue(now)
			whole = false
			to, limit, counts = until.at, l.buffer.limit, false
		}
		if !full || page[len(page)-1].WakeRow.At > to {
			if whole {
				l.refreshDue(now, counted, until.at)
			}
			return unknown, until, nil
		}
		after = store.KeyOf(&page[len(page)-1])
		if last || len(unknown) >= l.buffer.limit {
			if whole {
				l.refreshDue(now, counted, after.Wake)
			}
			return unknown, rowKey{after.Wake, after.ID}, nil
		}
	}
}

// refreshDue counts anew what a read-ahead has found through an instant.
func (l *loop) refreshDue(now task.Instant, found []task.Instant, through task.Instant) {
	l.reader.dueSoon.refresh(found, through)
	l.storeDue(now)
}

func (l *loop) storeDue(now task.Instant) {
	for i, n := range l.reader.dueSoon.estimate(now) {
		l.stats.due[i].Store(n)
	}
}
