package scheduler

import (
	"context"

	"github.com/kinesin-io/kinesin/task"
)

// A pass reads the schedule for rows of limit keys whose lists in memory ran low.

// nextPass returns when the next page of a pass is to be read.
func (l *loop) nextPass() tick {
	if l.keys == nil || l.foreign || l.reader.ahead.through.IsZero() || !l.keys.queue.wantsPass() {
		return tick(never)
	}
	if q := l.keys.queue; !q.pass.underWay && len(q.low) == 0 {
		return max(l.keys.page, l.keys.again)
	}
	return l.keys.page
}

// passPage reads the next page of a pass, which fills the lists of keys that ran low.
func (l *loop) passPage(ctx context.Context) error {
	k, q, now := l.keys, l.keys.queue, l.tick()
	if !q.pass.underWay && len(q.low) == 0 {
		k.again = now.Add(keyPassEvery)
	}
	if q.beginPass(); !q.pass.underWay { // no list is low any more
		return nil
	}
	c := cursor{after: q.pass.after, through: l.reader.ahead.through}
	err := l.step(ctx, &c, l.pageRows(), func(row *task.Task) bool {
		isTaken := l.passRow(row)
		if !isTaken {
			c.page = now.Add(keyPassWait)
		}
		return isTaken
	})
	if err != nil {
		return err
	}
	k.page = c.page
	q.passed(c.after, !c.underWay, keyPassPagesMax)
	return nil
}

// passRow puts a row of a pass into the list of its limit key, or a bare row that is due into the buffer; false: there is no
// room.
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
