package scheduler

import (
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// gateFirst reports whether a due entry without a task row is dispatched, or dropped by the order. A task is
// never dropped before it is due.
func (m *managedMode) gateFirst(e *entry, o *task.Order, now task.Instant) bool {
	g := m.gateAt(e.row, now)
	switch {
	case g == nil:
		return true
	case g.Action == hold.Pause:
		return m.hasPace(g, e.id) || !m.isPaused(e.row, false)
	case e.row.Due > now:
		m.buffer.add(entry{at: m.delayed(e.row.Due), id: e.id, row: e.row})
		return false
	}
	o.Event = dropBy(g)
	return true
}

// gateOrder reports whether what was decided about a task that wakes is done. A gate leaves a waiting task in
// its row and has one whose message was not claimed in time wait again; a drop gate ends both.
func (m *managedMode) gateOrder(t *task.Task, event *task.Event, now task.Instant) bool {
	g := m.gateAt(t, now)
	switch {
	case event.Kind != task.Enqueue || g == nil:
		return true
	case g.Action == hold.Drop && t.HeldUntil() > now:
		m.inFlight.put(m.inFlightAt(t, t.HeldUntil()))
		return false
	case g.Action == hold.Drop:
		*event = dropBy(g)
		return true
	case t.State == task.Enqueued:
		*event = task.Event{Kind: task.Reschedule, Due: t.Due}
		return true
	case !m.hasPace(g, t.ID) && m.isPaused(t, true):
		m.leave(t)
		return false
	}
	return true
}

func dropBy(g *hold.Gate) task.Event { return task.Event{Kind: task.Drop, Error: g.String()} }
