package scheduler

import (
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// A loop knows a task by its entry in the buffer, or by what is in flight. Here both begin.

// add puts a wake-up row that is not in flight into the buffer. The task of a row that is older than this
// process's ownership may have been dispatched, so its task row is read first, and it probably sends nothing.
func (l *loop) add(row *task.Task) {
	e := entry{at: l.delayed(row.WakeRow.At), id: row.ID, row: row, early: row.State == task.Scheduled && row.Attempt == 0, sends: true}
	mustRead, old := l.mustRead(row)
	e.mustRead, e.sends = mustRead, !mustRead || !old
	e.early = e.early || l.delivers
	if g := l.gateOf(row); g != nil && g.Action == hold.Drop {
		e.early, e.sends = l.delivers, false
	}
	if l.foreign && e.early {
		e.at = e.at.Add(l.Lead / 2) // it is dispatched that much before its time
	}
	l.buffer.add(e)
}

// await has a task row checked when the task wakes. Where there is no room for one more in flight, a task
// that wakes soon waits in the buffer.
func (l *loop) await(t *task.Task, sends bool) {
	if t.State.IsWaiting() && t.Wake <= l.now() && l.isPaused(t, true) {
		l.leave(t)
		return
	}
	if t.Wake == t.WakeRow.At && !l.foreign && !l.buffer.covers(t.Wake) && !holdsSlot(t) { // a read-ahead brings its wake-up row
		l.inFlight.drop(t.ID)
		return
	}
	if !l.inFlight.put(l.inFlightAt(t, t.Wake)) && t.Wake <= l.now().Add(l.Window) {
		l.buffer.add(entry{at: l.delayed(t.Wake), id: t.ID, row: t, mustRead: true, sends: sends})
	}
}

// knows reports whether a wake-up row that a scan has found is known: its task is in flight, or acquired.
func (l *loop) knows(row *task.Task) bool {
	if l.inFlight.noteScanned(row) {
		return true
	}
	_, acquired := l.acquired.Load(row.ID)
	if !acquired {
		l.noteLate(row)
	}
	return acquired
}
