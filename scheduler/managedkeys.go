package scheduler

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// takeKeyed takes rows whose keys have slots from the lists, keys in turn. Tasks without a limit key have a
// turn as well, as if they were of one key.
func (m *managedMode) takeKeyed(ctx context.Context, now task.Instant, allowed int) (taken []entry) {
	k := m.keys
	if k == nil || len(k.queue.ready) == 0 || m.tick() < k.retry {
		return nil
	}
	keys := len(k.queue.ready)
	if others := m.buffer.waiting(now, m.Lead, allowed); others > 0 {
		k.queue.othersDue += float64(allowed) / float64(keys+1)
		turns := min(int(k.queue.othersDue), others, allowed)
		k.queue.othersDue = min(k.queue.othersDue-float64(turns), 1)
		allowed -= turns
	} else {
		k.queue.othersDue = 0
	}
	rows := k.queue.take(now.Add(m.Lead/2), min(allowed, batchRowsMax), func(key string) (bool, task.Instant) {
		ok, again := k.slots.take(key, m.tick(), k.waiter)
		if again == 0 {
			return ok, 0
		}
		return ok, m.wall.local(again).Add(m.Lead / 2) // as a due time: keys are ready that much earlier
	})
	once := rows[:0]
	for i := range rows {
		if k.taken[rows[i].id] != nil { // it was moved, and both of its rows were listed: one is gone
			k.slots.unstarted(rows[i].key)
			k.slots.free(rows[i].key)
			k.queue.offer(rows[i].key, rows[i].keyRow, keyRead)
			continue
		}
		k.taken[rows[i].id] = &keyStart{key: rows[i].key, mayGo: rows[i].mayGo}
		once = append(once, rows[i])
	}
	return m.entriesOf(ctx, once)
}

// entriesOf returns rows of keys as entries. Those that were not kept are read again.
func (m *managedMode) entriesOf(ctx context.Context, rows []keyedRow) (entries []entry) {
	var again []store.WakeKey
	for i := range rows {
		if rows[i].row == nil {
			again = append(again, m.wakeKey(rows[i].rowKey))
		}
	}
	var read []task.Task
	if len(again) > 0 {
		var err error
		read, err = m.Store.Wakeups(ctx, again)
		m.stats.progress.mark(m.Clock)
		if err != nil {
			m.partitionFailed(ctx, m.partition, err)
			for i := range rows {
				m.keys.queue.offer(rows[i].key, rows[i].keyRow, keyKnown)
			}
			m.keys.retry = m.tick().Add(retries.Max / 10)
			return nil
		}
	}
	for i := range rows {
		r := &rows[i]
		if r.row == nil {
			found := read[0]
			if read = read[1:]; found.ID.IsZero() {
				continue // it is gone
			}
			must, _ := m.mustRead(&found)
			r.row, r.mustRead = &found, r.mustRead || must
		}
		entries = append(entries, entry{at: r.due, id: r.id, row: r.row, mustRead: r.mustRead, early: true, sends: true})
	}
	return entries
}

// keyFirst reports whether a task without a task row has a slot of its limit key, or needs none; otherwise it
// waits in the list of its key.
func (m *managedMode) keyFirst(o *task.Order) bool {
	if !m.isKeyLimited(&o.Task) || o.Event.Kind != task.Enqueue || m.keys.taken[o.Task.ID] != nil {
		return true
	}
	m.offerRow(&o.Task, keyRow{due: o.Task.WakeRow.At, mayGo: true}, keyRead)
	return false
}

// keyOrders leaves out the orders for tasks that wait in their rows and have no slot of their limit key:
// these wait in the list of that.
func (m *managedMode) keyOrders(orders []task.Order) []task.Order {
	if m.keys == nil {
		return orders
	}
	kept := orders[:0]
	for i := range orders {
		o := &orders[i]
		switch {
		case !m.isKeyLimited(&o.Task) || m.keys.taken[o.Task.ID] != nil:
		case o.Event.Kind == task.WorkerLost:
			m.keys.slots.started(o.Task.LimitKey, m.tick())
		case isRetry(*o):
			m.inFlight.drop(o.Task.ID)
			m.offerRow(&o.Task, keyRow{due: o.Task.Wake, mustRead: true, mayGo: true}, keyRead)
			continue
		}
		kept = append(kept, *o)
	}
	return kept
}

// keyAgain has a task wait in the list of its key that had a slot, and for which there is no room now.
func (m *managedMode) keyAgain(t *task.Task) bool {
	if !m.isKeyLimited(t) {
		return false
	}
	m.inFlight.drop(t.ID)
	m.offerRow(t, keyRow{due: t.Wake, mustRead: true, mayGo: true}, keyRead)
	return true
}

// noteStart notes that a task was started for which the round had taken a slot.
func (m *managedMode) noteStart(id task.ID) {
	if m.keys == nil {
		return
	}
	if one := m.keys.taken[id]; one != nil {
		one.made = true
	}
}
