package scheduler

import (
	"context"
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Only its owner starts tasks with a concurrency quota or limits by key. Where other processes store tasks
// and results, it reads a part of the schedule more often than it reads ahead: what is due about now, to find
// tasks that were stored elsewhere, and, while tasks wait for a slot, the rows of what holds one: a task
// whose wake-up row is gone has ended, or waits for a later one. It costs a query where reading the task rows
// would cost one read for each. A late scan goes further back now and then, for what was stored after it
// was due.

const (
	// soonEvery is how often an owner reads what is due about now, holdersEvery how often it reads what holds
	// slots while tasks wait for one.
	soonEvery    = 500 * time.Millisecond
	holdersEvery = 250 * time.Millisecond
	// soonBefore and soonAfter are how far around now it reads.
	soonBefore, soonAfter = 5 * time.Second, time.Second
	// lateEvery is how often an owner begins a late scan, for what was stored after it was due, lateBeforeMin
	// how far before now that begins at least. A message of the inbound buffer that a killed process had
	// received comes out again after 30 s, and its tasks may have been due meanwhile; after an outage, or a
	// burst, it may be minutes.
	lateEvery     = 30 * time.Second
	lateBeforeMin = 4 * lateEvery
	// lateDoublingsMax bounds how often that time is doubled: to 64 minutes, for as long as a full scan may
	// begin behind rows that wait. lateRowsMax bounds the rows of a late scan, so that the next is not late.
	lateDoublingsMax = 5
	lateRowsMax      = 1 << 15
	// holderPagesMax bounds the pages over what holds slots that are read at once; the next time it goes on
	// there.
	holderPagesMax = 2
)

// limitedRead is the state of the reads that an owner makes in between while limits bound what runs.
type limitedRead struct {
	next    tick
	around  tick   // when it reads about now next
	holders cursor // of what holds slots

	late      cursor
	lateNext  tick // when the next one begins
	lateScans uint // that have begun
	lateRows  int  // of that under way, at most
}

// readsSoon reports whether the partition is read in between read-aheads.
func (l *loop) readsSoon() bool { return l.limited && l.Foreign && !l.foreign && l.stats.warm.Load() }

// readSoon reads what is due about now, what was stored late, and what holds a slot that tasks wait for.
func (l *loop) readSoon(ctx context.Context, t tick) error {
	r, g := &l.reader.limited, l.inFlight.slots.group
	if now := l.wall.local(t); t >= r.around {
		if err := l.readAroundNow(ctx, now); err != nil {
			return err
		}
		if err := l.readLate(ctx, t, now); err != nil {
			return err
		}
		r.around = t.Add(soonEvery)
	}
	if r.next = r.around; g == nil {
		return nil
	}
	first, last := l.inFlight.holders(g.Waits())
	if last == (rowKey{}) {
		return nil
	}
	r.next = min(r.next, t.Add(holdersEvery))
	return l.readHolders(ctx, first, last)
}

// readAroundNow adds the rows that are due about now and not known. A full buffer has no place for them.
func (l *loop) readAroundNow(ctx context.Context, now task.Instant) error {
	from := endOf(now.Add(-soonBefore))
	if !l.buffer.has(from) {
		return nil
	}
	c := cursor{after: from, through: now.Add(soonAfter)}
	return l.step(ctx, &c, l.pageRows(), l.addFound)
}

// readLate reads the next page of the late scan, if it is time.
func (l *loop) readLate(ctx context.Context, t tick, now task.Instant) error {
	r := &l.reader.limited
	if !r.late.underWay {
		if t < r.lateNext {
			return nil
		}
		r.lateScans++
		r.late = cursor{after: endOf(now.Add(-lateBefore(r.lateScans))), underWay: true}
		r.lateNext, r.lateRows = t.Add(lateEvery), 0
	}
	limit := l.pageRows()
	r.late.through = now.Add(-soonBefore)
	if err := l.step(ctx, &r.late, limit, l.addFound); err != nil {
		return err
	}
	r.lateRows += limit
	r.late.underWay = r.late.underWay && r.lateRows < lateRowsMax
	return nil
}

// lateBefore returns how far before now the n-th late scan begins: every second one goes twice as far as the
// others, every fourth four times, and so on. So what was late by a time is found within a part of that, and
// each doubling costs the same.
func lateBefore(n uint) time.Duration {
	return lateBeforeMin << min(bits.TrailingZeros(n), lateDoublingsMax)
}

// readHolders reads the wake-up rows of the tasks that hold slots, which lie between two places, and forgets
// those whose rows are gone.
func (l *loop) readHolders(ctx context.Context, first, last rowKey) error {
	c := &l.reader.limited.holders
	if c.through = last.at; c.after.less(first.previous()) || !c.after.less(last) {
		c.after = first.previous()
	}
	for range holderPagesMax {
		if !c.after.less(last) {
			return nil
		}
		l.inFlight.beginScan()
		from := c.after
		if err := l.step(ctx, c, scanPageMax, func(row *task.Task) bool { l.knows(row); return true }); err != nil {
			return err
		}
		l.inFlight.endScan(from, c.after)
	}
	return nil
}
