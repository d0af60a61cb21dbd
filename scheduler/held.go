package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// A row that a gate pauses is passed over like one that is known: it is neither in the buffer nor in flight,
// and the schedule keeps it. So a backlog of them takes no room from others. The loop remembers up to where
// it has passed over them, so that they are not read again and again; when the gates of its lambda change it
// reads from the head.

// followGates notes changes of the gates, and of which of them are in force. It costs one atomic load while
// nothing changes.
func (l *loop) followGates() {
	if l.Gating == nil {
		return
	}
	h, number := &l.held, l.Gating.Gates.Number()
	over := !h.ends.IsZero() && l.now() >= h.ends
	if number == h.number && !over {
		return
	}
	h.number = number
	now, of := l.now(), l.Gating.Gates.OfLambda(l.partition.Lambda)
	if of.Equal(h.gates) && !over {
		return
	}
	before := l.held
	l.held = heldRows{number: number, gates: of, ends: of.Ends(now), every: l.heldPassEvery()}
	for _, g := range of {
		l.held.isPaced = l.held.isPaced || g.InForce(now) && !g.Resumed.IsZero()
		l.held.probes = l.held.probes || g.InForce(now) && g.Probes()
	}
	if len(before.gates) > 0 {
		l.readAnew(now)
		if before.isPaced && !l.foreign {
			l.inFlight.checkAll(now) // some wait there for their pace
		}
	}
	l.gateBuffer(now)
	l.publishHeld()
}

// gateBuffer applies new gates to the buffer, so that what they hold takes no room there, and what they drop
// waits for none in the queue.
func (l *loop) gateBuffer(now task.Instant) {
	var held, dropped []entry
	l.buffer.entries.Ascend(func(e entry) bool {
		switch g := l.gateAt(e.row, now); {
		case g == nil:
		case g.Action == hold.Drop:
			dropped = append(dropped, e)
		case !e.mustRead && l.passesOver(e.row):
			held = append(held, e)
		}
		return true
	})
	for _, e := range held {
		l.buffer.remove(e)
	}
	for _, e := range dropped {
		e.early, e.sends = l.delivers, false
		l.buffer.put(e)
	}
}

// passesRows reports whether there may be rows that are passed over.
func (l *loop) passesRows() bool { return len(l.held.gates) > 0 || l.keys != nil }

// passesOver reports whether a wake-up row is left in the schedule, because of a gate or its limit key. One
// whose task may have a task row is not before that is read.
func (l *loop) passesOver(row *task.Task) bool {
	if l.keys != nil && l.listsRow(row) {
		return true
	}
	if len(l.held.gates) == 0 {
		return false
	}
	if mustRead, _ := l.mustRead(row); mustRead {
		return false
	}
	g := l.gateOf(row)
	if g == nil || g.Action != hold.Pause {
		return false
	}
	if _, goes := l.held.mayGo[row.ID]; goes {
		return false
	}
	l.held.some = true
	l.endWhenExpired(row, false)
	return true
}

// passesOverAhead is passesOver for a read-ahead.
func (l *loop) passesOverAhead(row *task.Task) bool {
	if !l.passesOver(row) {
		return false
	}
	if h, key := &l.held, keyOf(row); h.counted.less(key) {
		h.counted = key
		h.further++
	}
	return true
}

// holdScanned is passesOver for a full scan, which lets rows go where a gate resumes at a pace; if not zero,
// the scan goes on with this row after a wait.
func (l *loop) holdScanned(row *task.Task) (held bool, wait time.Duration) {
	h, now := &l.held, l.now()
	if g := l.gateAt(row, now); g != nil && g.Action == hold.Pause && !g.Resumed.IsZero() {
		granted, at := l.Gating.Pace(g, l.partition)
		if !granted {
			return true, min(max(at.Sub(now), scanPause), paceWaitMax)
		}
		if h.mayGo == nil {
			h.mayGo = map[task.ID]struct{}{}
		}
		h.mayGo[row.ID] = struct{}{}
		return false, 0
	}
	if held = l.passesOver(row); held {
		h.scanning++
	}
	return held, 0
}

// followPutBack notes a task that a claim put back because a gate holds it.
func (l *loop) followPutBack(t *task.Task, hasRow bool) {
	l.inFlight.drop(t.ID)
	if !hasRow {
		t.Wake, t.Enqueued = t.WakeRow.At, 0
	}
	switch {
	case !l.isPaused(t, hasRow):
		l.buffer.add(entry{at: l.delayed(t.Wake), id: t.ID, row: t, mustRead: hasRow, sends: true})
	case hasRow:
		l.leave(t)
	}
}

// readUpTo notes how far a read-ahead has come. Rows that another process stores ahead of now are read again.
func (l *loop) readUpTo(end rowKey, now task.Instant) {
	if h := &l.held; h.some {
		if h.ahead = end; l.Foreign && endOf(now).less(end) {
			h.ahead = endOf(now)
		}
	}
}

// publishHeld lets others see how many rows are held.
func (l *loop) publishHeld() {
	l.stats.held.Store(int64(max(l.held.count, l.held.scanning) + l.held.further))
}
