package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A task that is due, does not start, and is held by nothing that says so is a bug of this package that nothing
// else shows: what a loop has lost it neither dispatches nor counts. So a loop that reads rows which should have
// started looks through its schedule from the head, apart from the reads by which it dispatches and from what
// these remember, for tasks that stay where they are. It only counts them.

const (
	// unexplainedAfter is how late a task is, at least, that counts as unexplained, and for how long the first
	// one was seen to be.
	unexplainedAfter = 30 * time.Second
	// lookEvery is how often a loop looks at a page, lookAgain how often while such a task is on the page, and
	// lookRowsMax how many rows a page has.
	lookEvery   = time.Minute
	lookAgain   = 10 * time.Second
	lookRowsMax = 128
)

// unexplainedLook is the state of one partition's look for such tasks.
type unexplainedLook struct {
	seen  bool // a read has met a row that should have started, since the schedule was looked through
	next  tick
	after rowKey // it goes on there
	first rowKey // the first task that is unexplained; zero: none is
	since tick   // when that was seen first
}

// lookForUnexplained looks at the next page, if it is time. A page that has such a task is looked at until it has
// none: the first one of a backlog that is worked off does not stay.
func (l *loop) lookForUnexplained(ctx context.Context, now task.Instant) error {
	u, t := &l.reader.unexplained, l.tick()
	if !u.seen || !l.stats.warm.Load() || t < u.next {
		return nil
	}
	u.next = t.Add(lookEvery)
	from, late, limit := u.after, now.Add(-unexplainedAfter), min(lookRowsMax, l.pageRows())
	if u.first != (rowKey{}) {
		from = u.first.previous()
	}
	c := cursor{after: from, through: late}
	page, err := l.nextPage(ctx, &c, limit)
	if err != nil {
		return err
	}
	found, err := l.unexplained(ctx, page, now, late)
	if err != nil {
		return err
	}
	count := int64(len(found))
	if count == 0 {
		u.first, u.after, u.seen = rowKey{}, rowKey{}, c.underWay
		if u.seen {
			u.after = c.after
		}
	} else {
		u.next = t.Add(lookAgain)
		if found[0] != u.first {
			u.first, u.since = found[0], t
		}
		if t.Sub(u.since) < unexplainedAfter {
			count = min(count, l.stats.unexplained.Load())
		}
	}
	if l.stats.unexplained.Swap(count) == 0 && count > 0 {
		l.Log.ErrorContext(ctx, "due tasks do not start, and nothing holds them", slog.String("partition", l.partition.String()), slog.Int64("tasks", count))
	}
	return nil
}

// noteLate notes a row that a read has met, that is not in flight, and that nothing holds.
func (l *loop) noteLate(row *task.Task) {
	if u, now := &l.reader.unexplained, l.now(); !u.seen && row.WakeRow.At <= now.Add(-unexplainedAfter) {
		u.seen = !l.isHeld(row)
	}
}

// unexplained returns the places of the tasks of wake-up rows that wait although they were due at an instant, and
// that nothing holds.
func (l *loop) unexplained(ctx context.Context, page []task.Task, now, late task.Instant) (found []rowKey, err error) {
	if l.stats.heldByQuota.Load() > 0 || l.stats.heldByQueue.Load() > 0 { // it says so of all that is due
		return nil, nil
	}
	var rows []task.Task
	var ids []task.ID
	for i := range page {
		if row := &page[i]; !l.follows(row, late) && !l.isHeld(row) {
			rows, ids = append(rows, *row), append(ids, row.ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	taskRows, err := l.Store.Tasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		t := &taskRows[i]
		switch store.Conclude(&rows[i], t, now) {
		case store.Undispatched:
			t = &rows[i]
		case store.Live:
		case store.Leftover, store.Unclear:
			continue
		}
		if t.State.IsWaiting() && t.Wake <= late && !l.isHeld(t) {
			found = append(found, keyOf(&rows[i]))
		}
	}
	return found, nil
}

// follows reports whether the task of a wake-up row is in flight and checked in time, or acquired.
func (l *loop) follows(row *task.Task, late task.Instant) bool {
	if one := l.inFlight.byID[row.ID]; one != nil && one.wakeRowAt == row.WakeRow.At && (one.overBudget || one.checkAt > late) {
		return true
	}
	_, acquired := l.acquired.Load(row.ID)
	return acquired
}

// isHeld reports whether a gate or its limit key holds a task, as far as its row tells.
func (l *loop) isHeld(t *task.Task) bool {
	if g := l.gateOf(t); g != nil && g.Action == hold.Pause {
		return true
	}
	return l.isKeyLimited(t) && l.keys.slots.isFull(t.LimitKey, l.tick())
}
