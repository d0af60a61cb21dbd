package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// gateOf returns the gate that holds back or drops a task now; nil: none. Without gates it reads no clock.
func (l *loop) gateOf(t *task.Task) *hold.Gate {
	if len(l.held.gates) == 0 {
		return nil
	}
	return l.gateAt(t, l.now())
}

// gateAt returns the gate that holds back or drops a task at an instant; nil: none. No gate holds a task that has expired,
// and where this process cannot pace, a gate that resumes holds nothing.
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
// the gate was known, and have ended. Each scan then reads the task row while that is kept: a wake-up row that outlives
// the row of its ended task would start the task again when the gate ends. Where ended rows do not expire by themselves,
// no wake-up row outlives them.
func (l *loop) mayBeLeftover(row *task.Task) bool {
	if len(l.held.gates) == 0 || l.Downtime == nil || l.delivers {
		return false
	}
	g := l.gateOf(row)
	return g != nil && g.Action == hold.Pause && g.Resumed.IsZero() && row.WakeRow.At < g.Created.Add(gateKnownMax)
}

// isPaused reports whether a gate holds back a waiting task, and counts the task as held if so. A gate that resumes at a
// pace may let the task go.
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

// takePace reports whether a gate that resumes at a pace lets a task go, and uses up a turn of the pace if so.
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

// endWhenExpired remembers a held row for takeExpired, if its task can expire and there is room. Other tasks end when a
// full scan meets their rows.
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

// leave takes a task that has a task row, and that a gate holds, out of those in flight. While the gate resumes at a pace,
// the task stays in flight with a timer instead: the timers ring at that pace. The full scan cannot start such a task,
// since its wake-up row may not tell what the gate selects by.
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

// readAnew has the next full scan begin at the head of the partition, because gates may hold other rows than before. In a
// partition of this process it also rechecks what is in flight, which another process may have put back.
func (l *loop) readAnew(now task.Instant) {
	f := &l.reader.full
	f.underWay, f.begins = false, 0
	l.reader.ahead.next, l.reader.ahead.partial = 0, false
	if l.Foreign && !l.foreign {
		l.inFlight.checkAll(now)
	}
}

// heldPassEvery returns for how long full scans of the partition may begin behind the rows that gates hold; 0: all begin at
// the head.
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
