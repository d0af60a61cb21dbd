package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/task"
)

// A partition's schedule is read in two ways. A read-ahead goes every half window from a margin before now,
// or from the first row that is not known if that is earlier, to the window's end. A full scan reads all that
// lies before, from the head: when the partition comes to this process and every few minutes. It finds what
// is in flight, what was stored late, and what a crash left behind. So neither a backlog nor tasks that run
// for hours are read with every read-ahead.

// readMargin is how long before now a read-ahead begins. A row that is stored later than that after its
// wake-up comes to the owner as a hint, or waits for the next full scan.
const readMargin = time.Minute

// readAhead is the state of one partition's read-aheads.
type readAhead struct {
	missed   task.Instant // a row at or behind it may be unknown though the high-water mark covers it; zero: none
	through  task.Instant // where the last one ended; zero: there was none
	next     tick
	partial  bool            // the last one did not come to its end, though there is room
	repeated bool            // there was a first one, so that the second one is planned
	breaker  backoff.Breaker // for all reads of the schedule
}

// restartAt has a read-ahead begin at once, and no later in the schedule than at an instant.
func (r *readAhead) restartAt(at task.Instant) {
	if r.missed.IsZero() || at < r.missed {
		r.missed = at
	}
	r.next = 0
}

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
	d, c, limit, counts := &l.reader.dueSoon, cursor{after: from, through: until.at}, l.buffer.limit, false
	if whole {
		c.through, limit, counts = d.span(l.Clock, now, until.at, limit)
	}
	enough := limit
	var counted []task.Instant // wake-ups of what is due soon
	visit := func(row *task.Task) bool {
		at, passes := row.WakeRow.At, l.passesOverAhead
		if at > until.at {
			passes = l.passesOver // it is not held yet, and is counted when the window reaches it
		}
		if l.knows(row) || passes(row) {
			return true
		}
		if whole && (counts || at <= until.at) {
			counted = append(counted, at)
		}
		if at <= until.at {
			unknown = append(unknown, row)
		}
		return true
	}
	for pages := 1; ; pages++ {
		if err = l.step(ctx, &c, limit, visit); err != nil {
			return nil, rowKey{}, err
		}
		last := l.passesRows() && pages >= heldPagesMax
		if counts && (!c.underWay || last || len(counted) >= enough) {
			d.counted(l.Clock, counted, c.underWay)
			l.storeDue(now)
			c.through, limit, counts, whole = until.at, l.buffer.limit, false, false
		}
		end = c.after
		if !c.underWay || end.at > c.through {
			end = until
		} else if !last && len(unknown) < l.buffer.limit {
			continue
		}
		if whole {
			d.refresh(counted, end.at) // what the read-ahead has found is counted anew
			l.storeDue(now)
		}
		return unknown, end, nil
	}
}

func (l *loop) storeDue(now task.Instant) {
	for i, n := range l.reader.dueSoon.estimate(now) {
		l.stats.due[i].Store(n)
	}
}
