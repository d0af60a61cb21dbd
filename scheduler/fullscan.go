package scheduler

import (
	"context"
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

const (
	// scanEvery is how often a partition is read from its head.
	scanEvery = 5 * time.Minute
	// scansApart is how far apart two full scans of a partition are at most.
	scansApart = scanEvery + scanEvery/4
)

// fullScan is the state of one partition's scan from its head.
type fullScan struct {
	cursor

	begins tick // when the next one begins
	every  time.Duration
	since  task.Instant // when the partition came here: the task of an older row may be in flight
	rescan cursor       // goes over what a scan that waits for room has read
}

// newFullScan spreads the scans of partitions over time.
func newFullScan(random uint64) fullScan {
	spread, _ := bits.Mul64(random, uint64(scanEvery/2))
	return fullScan{every: scanEvery - scanEvery/4 + time.Duration(spread)}
}

// beginScan begins a scan when it is time, over all that lies before the margin of a read-ahead, except what
// gates are known to hold there.
func (l *loop) beginScan(now task.Instant) {
	f, t := &l.reader.full, l.tick()
	if f.underWay || !l.held.probes && t < f.begins {
		return
	}
	f.begins, f.cursor = t.Add(f.every), cursor{after: l.held.scanAfter(t, l.inFlight), through: now.Add(-readMargin), underWay: true}
	if l.held.isPaced {
		f.through = now // no read-ahead lets such rows through
	}
}

// roomForScan reports whether half of the buffer is free of what the scan has brought. Later rows give way to
// it, and are found again by a read-ahead.
func (l *loop) roomForScan() bool {
	most := l.buffer.limit / 2
	return l.buffer.count(l.reader.full.after.at, most+1) <= most
}

// scanPage reads the next page of the scan that is under way.
func (l *loop) scanPage(ctx context.Context) error {
	f, h, limit, rows := &l.reader.full, &l.held, l.pageRows(), 0
	if h.isPaced {
		limit = h.pacedRows(limit)
	}
	came := 2 * limit
	err := l.step(ctx, &f.cursor, limit, func(row *task.Task) bool {
		if l.knows(row) {
			return true
		}
		held, wait := l.holdScanned(row)
		if wait > 0 { // the scan goes on there
			f.page, came = l.tick().Add(wait), rows
			return false
		}
		if rows++; !held {
			l.addScanned(row)
		}
		return true
	})
	if err != nil {
		return err
	}
	if h.paceRows = came; !f.underWay {
		h.scanned(f.through)
	}
	return nil
}

// rescanPage reads a page of what a scan that waits for room has read before, when the next scan is due. A
// backlog may hold up a scan for longer than ended rows are kept, and the part that was read may by now hold
// leftover rows, and tasks that memory had no room for.
func (l *loop) rescanPage(ctx context.Context) error {
	c := &l.reader.full.rescan
	if c.through = l.reader.full.after.at; !c.underWay {
		c.after = rowKey{}
	}
	return l.step(ctx, c, l.pageRows(), l.addFound)
}
