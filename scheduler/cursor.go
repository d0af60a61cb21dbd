package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// scanPageMax bounds the rows that a read beside the read-aheads reads at once, scanPause is the time between two such
// pages where the store is remote: 5,000 rows a second.
const (
	scanPageMax = 512
	scanPause   = 100 * time.Millisecond
)

// cursor is where a read of a partition's schedule goes on, and where it ends.
type cursor struct {
	after    rowKey
	through  task.Instant
	underWay bool // it has not come to the end
	page     tick // when the next page may be read
}

// nextPage reads the next page of a cursor and moves the cursor behind the page.
func (l *loop) nextPage(ctx context.Context, c *cursor, limit int) ([]task.Task, error) {
	page, err := l.Store.ScanSchedule(ctx, l.partition, l.wakeKey(c.after), c.through, limit)
	l.stats.progress.mark(l.Clock)
	if err != nil {
		return nil, err
	}
	c.underWay, c.after, c.page = len(page) == limit, endOf(c.through), l.tick()
	if c.underWay {
		c.after = keyOf(&page[limit-1])
	}
	if l.Queue.Durable() {
		c.page = c.page.Add(scanPause * time.Duration(limit) / scanPageMax)
	}
	return page, nil
}

// step reads the next page of a cursor and moves the cursor to each row that it shows to visit. If visit returns false,
// the next page begins with that row.
func (l *loop) step(ctx context.Context, c *cursor, limit int, visit func(row *task.Task) bool) error {
	end := *c
	page, err := l.nextPage(ctx, &end, limit)
	if err != nil {
		return err
	}
	c.underWay, c.page = true, end.page
	for i := range page {
		before := c.after
		if c.after = keyOf(&page[i]); !visit(&page[i]) {
			c.after = before
			return nil
		}
	}
	*c = end
	return nil
}

// pageRows is how many rows a page of a read beside the read-aheads has.
func (l *loop) pageRows() int { return min(scanPageMax, l.buffer.limit/2) }

// addFound is a visitor that adds a row to the buffer, or to the list of its limit key, unless it is known.
func (l *loop) addFound(row *task.Task) bool {
	isThere := l.knows(row) || l.buffer.entries.Has(entry{at: l.delayed(row.WakeRow.At), id: row.ID})
	if !isThere && l.buffer.has(keyOf(row)) && !l.passesOver(row) {
		l.addScanned(row)
	}
	return true
}

// addScanned adds a row of a page that may have few others to add, which is not kept for it.
func (l *loop) addScanned(row *task.Task) {
	copied := *row
	l.add(&copied)
}
