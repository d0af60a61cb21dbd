package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A pass reads the schedule for keys whose lists in memory ran low.

// nextPass returns when the next page of a pass is to be read; zero: none is.
func (l *loop) nextPass() tick {
	if l.keys == nil || l.foreign || l.reader.ahead.through.IsZero() || !l.keys.queue.wantsPass() {
		return 0
	}
	if q := l.keys.queue; !q.pass.underWay && len(q.low) == 0 {
		return max(l.keys.page, l.keys.again, 1)
	}
	return max(l.keys.page, 1)
}

// isPassDue reports whether a page of a pass may be read now.
func (l *loop) isPassDue(now tick) bool {
	at := l.nextPass()
	return at != 0 && at <= now
}

// passPage reads the next page of a pass, which fills the lists of keys that ran low.
func (l *loop) passPage(ctx context.Context) error {
	k, q, now := l.keys, l.keys.queue, l.tick()
	if !q.pass.underWay && len(q.low) == 0 {
		k.again = now.Add(keyPassEvery)
	}
	q.beginPass()
	limit := l.pageRows()
	page, err := l.Store.ScanSchedule(ctx, l.partition, l.wakeKey(q.pass.after), l.reader.ahead.through, limit)
	if err != nil {
		return err
	}
	after, ended := q.pass.after, len(page) < limit
	k.page = now
	if l.Queue.Durable() {
		k.page = now.Add(scanPause * time.Duration(limit) / scanPageMax)
	}
	for i := range page {
		if !l.passRow(&page[i]) {
			k.page, ended = now.Add(keyPassWait), false
			break
		}
		after = keyOf(&page[i])
	}
	if ended {
		after = endOf(l.reader.ahead.through)
	}
	q.passed(after, ended, keyPassPagesMax)
	return nil
}

// passRow takes a row of a pass in; false if there is no room for it.
func (l *loop) passRow(row *task.Task) bool {
	if l.knows(row) {
		return true
	}
	switch mustRead, _ := l.mustRead(row); {
	case l.gateOf(row) != nil || !row.IsBare() && !l.isKeyLimited(row): // other scans bring it
	case !row.IsBare():
		l.offerRow(row, keyRow{due: row.WakeRow.At, mustRead: mustRead}, keyScanned)
	case l.buffer.entries.Has(entry{at: row.WakeRow.At, id: row.ID}) || row.WakeRow.At > l.now():
	case l.buffer.entries.Len() > l.buffer.limit/2:
		return false
	default:
		l.add(row)
	}
	return true
}
