package scheduler

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// takeKeyed takes up to allowed rows from the lists of limit keys that have a free slot, a row of each key in turn. Tasks
// without a limit key have a turn as well, as if they all had the same key.
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
	rows := k.queue.take(now.Add(m.Lead), min(allowed, batchRowsMax), func(l *keyList) (bool, task.Instant) {
		t := m.tick()
		now := m.wall.local(t)
		ok, again := k.slots.take(l.key, t, keyTimes{max(0, l.rows[0].due.Sub(now)), l.following().Sub(now)}, k.waiter)
		if again == 0 {
			return ok, 0
		}
		return ok, m.wall.local(again).Add(m.Lead / 2) // as a due time: keys are ready that much earlier
	})
	once := rows[:0]
	for i := range rows {
		if k.taken[rows[i].id] != nil { // the task was moved, and both rows were listed: the older one is gone
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

// entriesOf returns the entries of rows that were taken from lists of limit keys. Lists keep some rows in memory; the others
// are read from the store. If that fails, all rows go back to their lists.
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
				continue // the row is gone
			}
			must, _ := m.mustRead(&found)
			r.row, r.mustRead = &found, r.mustRead || must
		}
		entries = append(entries, entry{at: r.due, id: r.id, row: r.row, mustRead: r.mustRead, early: true, sends: true})
	}
	return entries
}

// keyFirst reports whether a task without a task row may be dispatched: it has a slot of its limit key, or needs none.
// Otherwise keyFirst puts the task into the list of its key.
func (m *managedMode) keyFirst(o *task.Order) bool {
	if !m.isKeyLimited(&o.Task) || o.Event.Kind != task.Enqueue || m.keys.taken[o.Task.ID] != nil {
		return true
	}
	m.offerRow(&o.Task, keyRow{due: o.Task.WakeRow.At, mayGo: true}, keyRead)
	return false
}

// keyOrders removes the retries of tasks that have no slot of their limit key, and puts these tasks into the lists of their
// keys.
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

// keyAgain puts a task that had a slot of its limit key, and for which the queue has no room now, back into the list of the
// key. It reports whether the task has a key that is limited.
func (m *managedMode) keyAgain(t *task.Task) bool {
	if !m.isKeyLimited(t) {
		return false
	}
	m.inFlight.drop(t.ID)
	m.offerRow(t, keyRow{due: t.Wake, mustRead: true, mayGo: true}, keyRead)
	return true
}

// noteStart notes that the round has used the slot of a limit key that it took for a task.
func (m *managedMode) noteStart(id task.ID) {
	if m.keys == nil {
		return
	}
	if start := m.keys.taken[id]; start != nil {
		start.made = true
	}
}
