package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// beginScan begins a scan when it is time, over all that lies before the margin of a read-ahead, except what
// gates are known to hold there.
func (l *loop) beginScan(now task.Instant) {
	f, t := &l.reader.full, l.tick()
	if f.underWay || !l.held.probes && t < f.begins {
		return
	}
	f.underWay, f.after, f.through = true, l.held.scanAfter(t, l.inFlight), now.Add(-readMargin)
	if l.held.isPaced {
		f.through = now // no read-ahead lets such rows through
	}
	f.begins, f.page = t.Add(f.every), t
}

// isScanDue reports whether the next page of a full scan may be read, and there is room for it.
func (l *loop) isScanDue(now tick) bool {
	f := &l.reader.full
	return f.underWay && !l.foreign && f.page <= now && l.roomForScan()
}

// roomForScan reports whether half of the buffer is free of what the scan has brought. Later rows give way to
// it, and are found again by a read-ahead.
func (l *loop) roomForScan() bool {
	most := l.buffer.limit / 2
	return l.buffer.count(l.reader.full.after.Wake, most+1) <= most
}

// pageRows is how many rows a page of a full scan has.
func (l *loop) pageRows() int { return min(scanPageMax, l.buffer.limit/2) }

// readPage reads a page of the schedule. It returns the rows that are not known, and the last key of a full
// page; zero at the end of the range.
func (l *loop) readPage(ctx context.Context, after store.WakeKey, through task.Instant, limit int) (unknown []task.Task, last store.WakeKey, err error) {
	page, err := l.Store.ScanSchedule(ctx, l.partition, after, through, limit)
	if err != nil {
		return nil, last, err
	}
	if len(page) == limit {
		last = store.KeyOf(&page[limit-1])
	}
	for i := range page {
		if !l.knows(&page[i]) {
			unknown = append(unknown, page[i])
		}
	}
	return unknown, last, nil
}

// scanPage reads the next page of the scan that is under way.
func (l *loop) scanPage(ctx context.Context) error {
	f, limit := &l.reader.full, l.pageRows()
	if l.held.isPaced {
		limit = l.held.pacedRows(limit)
	}
	rows, last, err := l.readPage(ctx, f.after, f.through, limit)
	if err != nil {
		return err
	}
	for i := range rows {
		held, wait := l.holdScanned(&rows[i])
		if wait > 0 { // the scan goes on there
			f.page = l.tick().Add(wait)
			l.held.paceRows = i
			return nil
		}
		if f.after = store.KeyOf(&rows[i]); !held {
			l.add(&rows[i])
		}
	}
	if l.held.paceRows = 2 * limit; last == (store.WakeKey{}) {
		f.underWay = false
		l.held.scanned(f.through)
		return nil
	}
	f.after, f.page = last, l.tick()
	if l.Queue.Durable() {
		f.page = f.page.Add(scanPause * time.Duration(limit) / scanPageMax)
	}
	return nil
}

// rescanPage reads a page of what a scan that waits for room has read before, when the next scan is due. A
// backlog may hold up a scan for longer than ended rows are kept, and the part that was read may by now hold
// leftover rows, and tasks that memory had no room for.
func (l *loop) rescanPage(ctx context.Context) error {
	f := &l.reader.full
	rows, last, err := l.readPage(ctx, f.rescan, f.after.Wake, l.pageRows())
	if err != nil {
		return err
	}
	for i := range rows {
		if !l.buffer.entries.Has(entry{at: l.delayed(rows[i].WakeRow.At), id: rows[i].ID}) && !l.passesOver(&rows[i]) {
			l.add(&rows[i])
		}
	}
	f.rescan = last
	return nil
}
