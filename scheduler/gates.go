package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// gateOf returns the gate that holds a task back now, or drops it; nil: none. Without gates it reads no
// clock.
func (l *loop) gateOf(t *task.Task) *hold.Gate {
	if len(l.held.gates) == 0 {
		return nil
	}
	return l.gateAt(t, l.now())
}

// gateAt is gateOf for an instant. A task that has expired then is not held.
func (l *loop) gateAt(t *task.Task, now task.Instant) *hold.Gate {
	if len(l.held.gates) == 0 || t.IsExpired(now) {
		return nil
	}
	g := l.held.gates.Of(t, now)
	if g != nil && !g.Resumed.IsZero() && l.Gating.Pace == nil {
		return nil
	}
	return g
}

// mustRead reports whether the task of a wake-up row may have a task row, which has to be read first. old
// says that the row is older than this process's ownership, or than the gate that holds it.
func (l *loop) mustRead(row *task.Task) (must, old bool) {
	old = row.WakeRow.At < l.reader.full.since || l.mayBeLeftover(row)
	if hasTaskRow(row) || row.WakeRow.Seq > 1 && !l.delivers || row.Attempt > 0 || row.State != task.Scheduled && row.State != task.Acquired {
		return true, old
	}
	return old && !l.delivers, old
}

// mayBeLeftover reports whether the task of a wake-up row that a gate holds may have been dispatched before
// the gate was known, and have ended. The row is then read with each scan that meets it, while the ended row
// is there to tell: one that was left in the schedule for longer than that would start its task again when
// the gate ends. Where ended rows do not expire by themselves, no such row stays without them.
func (l *loop) mayBeLeftover(row *task.Task) bool {
	if len(l.held.gates) == 0 || l.Downtime == nil || l.delivers {
		return false
	}
	g := l.gateOf(row)
	return g != nil && g.Action == hold.Pause && g.Resumed.IsZero() && row.WakeRow.At < g.Created.Add(gateKnownMax)
}

// isPaused returns whether a gate holds a waiting task back, and notes it if so.
func (l *loop) isPaused(t *task.Task, mustRead bool) bool {
	g := l.gateOf(t)
	if g == nil || g.Action != hold.Pause || l.takePace(g, t.ID) {
		return false
	}
	l.held.some = true
	switch f := &l.reader.full; {
	case f.underWay && t.WakeRow.At <= f.after.at:
		l.held.scanning++
	case !f.underWay && t.WakeRow.At <= f.through:
		l.held.count++
	}
	l.endWhenExpired(t, mustRead)
	return true
}

// takePace reports whether a task goes although a gate that resumes at a pace holds it.
func (l *loop) takePace(g *hold.Gate, id task.ID) bool {
	if g.Resumed.IsZero() {
		return false
	}
	if _, goes := l.held.mayGo[id]; goes {
		delete(l.held.mayGo, id)
		return true
	}
	granted, _ := l.Gating.Pace(g, l.partition)
	return granted
}

// endWhenExpired remembers a row that is held and expires, as far as there is room. The others end when a
// full scan meets them.
func (l *loop) endWhenExpired(row *task.Task, mustRead bool) {
	if !row.MayExpire() || l.foreign {
		return
	}
	h := &l.held
	if h.expiring == nil {
		h.expiring = newBuffer(l.buffer.limit)
	}
	copied := *row
	h.expiring.add(entry{at: row.StartBefore, id: row.ID, row: &copied, mustRead: mustRead})
}

// takeExpired moves the held rows that have expired to the buffer, from which they end.
func (l *loop) takeExpired() {
	if l.held.expiring == nil {
		return
	}
	taken, _ := l.held.expiring.take(l.now(), 0, batchRowsMax, 0)
	for _, e := range taken {
		l.buffer.add(entry{at: l.delayed(e.row.WakeRow.At), id: e.id, row: e.row, mustRead: e.mustRead, early: true, sends: true})
	}
}

// nextExpiry returns when the next held row expires or the gates change; never if none does.
func (l *loop) nextExpiry(now task.Instant) task.Instant {
	at := never
	if h := &l.held; h.expiring != nil {
		if first, ok := h.expiring.first(); ok {
			at = min(at, first)
		}
	}
	if ends := l.held.ends; !ends.IsZero() {
		at = min(at, max(ends, now))
	}
	return at
}

// leave leaves a task with a task row that a gate holds in its row. While the gate resumes at a pace the task
// asks again by itself, one after the other at that pace: its wake-up row may not tell what the gate selects
// by, so the full scan asks for no start of it.
func (l *loop) leave(t *task.Task) {
	now, h := l.now(), &l.held
	g := l.gateAt(t, now)
	if g == nil || g.Resumed.IsZero() || l.foreign {
		l.inFlight.drop(t.ID)
		return
	}
	soonest, last := now.Add(scanPause), now.Add(scanEvery)
	h.paceNext = min(max(h.paceNext, soonest).Add(time.Second/time.Duration(max(g.Pace, 1))), last)
	l.inFlight.put(l.inFlightAt(t, h.paceNext))
}

// readAnew reads the partition from its head, because rows that were held may be so no longer. A task that
// another process has put back is in flight here and has to be read as well.
func (l *loop) readAnew(now task.Instant) {
	f := &l.reader.full
	f.underWay, f.begins = false, 0
	l.reader.ahead.next, l.reader.ahead.partial = 0, false
	if l.Foreign && !l.foreign {
		l.inFlight.checkAll(now)
	}
}

func (l *loop) heldPassEvery() time.Duration {
	if l.Gating.Retention == nil {
		return 0
	}
	kept, known := l.Gating.Retention(l.partition.Lambda)
	if every := heldPassEvery(kept); known && every > scanEvery {
		return every
	}
	return 0
}

// hasPace reports whether a gate that resumes at a pace has let a task go before it waited for its limit key.
func (l *loop) hasPace(g *hold.Gate, id task.ID) bool {
	if l.keys == nil || g.Action != hold.Pause || g.Resumed.IsZero() {
		return false
	}
	one := l.keys.taken[id]
	return one != nil && one.mayGo
}
