package scheduler

import "github.com/kinesin-io/kinesin/task"

// hasQuota reports whether the partition's tasks have a quota of starts.
func (l *loop) hasQuota() bool { return l.Quotas != nil && l.Quotas.Rate(l.partition) > 0 }

// takeStarts takes up to want starts from the quota, for which waiting tasks of the partition wait. If it gets fewer, w says
// when there will be more.
func (l *loop) takeStarts(want, waiting int) (granted int, w quotaWait) {
	if want <= 0 {
		return 0, quotaWait{}
	}
	granted, w.again, w.more = l.Quotas.Take(l.partition, want, waiting)
	if granted == want {
		w = quotaWait{}
	}
	return granted, w
}

// startsFor returns how many tasks of the buffer that are due a round may start by slots and quota, where their queue has room
// for room.
func (m *managedMode) startsFor(now task.Instant, room int) (allowed int, w quotaWait) {
	if m.starts.paced = m.hasQuota(); !m.starts.paced && !m.limited {
		return room, quotaWait{}
	}
	waiting := m.buffer.waiting(now, m.Lead, partitionRowsMax) + m.keysReady()
	want := min(room, waiting, batchRowsMax)
	if m.limited {
		if want, w = m.takeSlots(want); w.isSet() {
			waiting = want // what waits for a slot needs no start
		}
	}
	if !m.starts.paced {
		return want, w
	}
	allowed, rate := m.takeStarts(want, waiting)
	if rate.isSet() {
		w = rate
		m.inFlight.slots.waitNot() // free slots would wake it, and others could use them
	}
	m.starts.taken = allowed
	return allowed, w
}

// retrySlots returns how many of the retries that a round found in rows get a slot, where the queue has room for room and the
// round starts sent other tasks.
func (m *managedMode) retrySlots(room, sent, retries int) (allowed int, w quotaWait) {
	if !m.limited {
		return retries, quotaWait{}
	}
	have := max(0, m.inFlight.slots.taken-sent)
	if want := min(room, retries); want > have {
		var granted int
		granted, w = m.takeSlots(want - have)
		have += granted
	}
	return min(retries, have), w
}

// retryStarts returns how many of the retries that a round found in rows get a start from the quota, where the queue has room
// for room and the round starts sent other tasks.
func (m *managedMode) retryStarts(room, sent, retries int) (allowed int, w quotaWait) {
	if !m.hasQuota() {
		return room, quotaWait{}
	}
	m.starts.paced = true
	have := max(0, m.starts.taken-sent)
	if want := min(room, retries); want > have {
		var granted int
		granted, w = m.takeStarts(want-have, retries-have)
		m.starts.taken += granted
		have += granted
	}
	return min(room, have), w
}

// returnStarts gives back to the quota the starts that a round took and does not use, and notes how many tasks wait for
// the quota.
func (m *managedMode) returnStarts(orders []task.Order, now task.Instant) {
	var waiting int64
	if m.starts.paced {
		used := countOrders(orders, func(o task.Order) bool { return takesStart(&o, now) })
		if m.starts.taken > used {
			m.Quotas.Return(m.partition, m.starts.taken-used)
		}
	}
	if m.room.quota.isSet() {
		waiting = m.dueInBuffer(now)
	}
	m.stats.heldByQuota.Store(waiting)
}

// returnStart gives back to the quota the start of an order whose task somebody else has moved.
func (m *managedMode) returnStart(o *task.Order) {
	if m.starts.paced && takesStart(o, m.now()) {
		m.Quotas.Return(m.partition, 1)
	}
}
