package scheduler

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A count of slots reads all task rows of a partition whose tasks may hold slots: those of all wake-up rows
// from the head to a moment after now, since none is dispatched before its time. It takes nothing into the
// buffer, and into memory only what is in flight, so that it comes to its end however long the backlog is. A loop
// makes a count when its process is to start the tasks of an exclusive group that another process may have started before.

// slotCountPagesMax bounds the pages of a count that are read at once: checks of what is in flight have their
// turn in between.
const slotCountPagesMax = 4

// slotCount is the state of one partition's count of slots.
type slotCount struct {
	cursor

	number uint64 // of the count that was made last, or is under way
}

// readSlotCount reads the next pages of the count that is under way.
func (l *loop) readSlotCount(ctx context.Context) error {
	c := &l.slotCount
	for range slotCountPagesMax {
		next := c.cursor
		page, err := l.nextPage(ctx, &next, scanPageMax)
		if err == nil {
			err = l.countPage(ctx, page)
		}
		if err != nil {
			return err
		}
		if c.cursor = next; !c.underWay {
			l.stats.slotCount.Store(c.number)
			notify(l.warmed)
			return nil
		}
	}
	return nil
}

// countPage reads the task rows of a page of wake-up rows, and notes what is in flight.
func (l *loop) countPage(ctx context.Context, page []task.Task) error {
	if len(page) == 0 {
		return nil
	}
	ids := make([]task.ID, len(page))
	for i := range page {
		ids[i] = page[i].ID
	}
	rows, err := l.taskRows(ctx, l.partition, ids)
	if err != nil {
		return err
	}
	l.stats.progress.mark(l.Clock)
	for i := range rows {
		if row := &rows[i]; store.Conclude(&page[i], row, l.nowWithoutSteps()) == store.Live {
			l.countRow(row)
		}
	}
	return nil
}

// countRow notes a live task row, if its task holds a slot or waits for a wake-up of which no wake-up row
// tells.
func (l *loop) countRow(row *task.Task) {
	if _, known := l.inFlight.byID[row.ID]; !known && !holdsSlot(row) && row.Wake == row.WakeRow.At {
		return // a scan brings it
	}
	l.buffer.dropUpTo(keyOf(row), row.WakeRow.Seq)
	if m, ok := l.mode.(*managedMode); ok {
		m.takeOver(row)
		m.follow(row)
	}
}
