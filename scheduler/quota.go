package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// quotaWait says when tasks that wait for their quota are tried again. The zero value is of tasks that do
// not.
type quotaWait struct {
	again task.Instant
	more  <-chan struct{} // closed when it may be sooner; nil: it will not be
}

func (w quotaWait) isSet() bool { return !w.again.IsZero() }

// startBudget is what a round has of its quota.
type startBudget struct {
	paced bool
	taken int // starts, some of which the round may not make
}

// hasQuota reports whether the partition's tasks have a quota of starts.
func (l *loop) hasQuota() bool { return l.Quotas != nil && l.Quotas.Rate(l.partition) > 0 }

// takeStarts takes up to want starts for tasks of which wait wait.
func (l *loop) takeStarts(want, wait int) (granted int, w quotaWait) {
	if want <= 0 {
		return 0, quotaWait{}
	}
	granted, w.again, w.more = l.Quotas.Take(l.partition, want, wait)
	if granted == want {
		w = quotaWait{}
	}
	return granted, w
}

// startsFor returns how many messages a round may send for what is due in the buffer, where its queue has
// room for some.
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

// retrySlots returns how many of the retries that a round found in rows may have a slot, besides what it
// sends anyway.
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

// retryStarts returns how many of the retries that a round found in rows it may send, where their queue has
// room for some, besides what it sends anyway.
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

// returnStarts gives back what a round has taken and does not use, and notes how many tasks wait for more.
func (m *managedMode) returnStarts(orders []task.Order, now task.Instant) {
	var held int64
	if m.starts.paced {
		used := countOrders(orders, func(o task.Order) bool { return takesStart(&o, now) })
		if m.starts.taken > used {
			m.Quotas.Return(m.partition, m.starts.taken-used)
		}
	}
	if m.room.quota.isSet() {
		held = m.heldDue(now)
	}
	m.stats.heldByQuota.Store(held)
}

// returnStart gives back the start of an order whose task somebody else had moved.
func (m *managedMode) returnStart(o *task.Order) {
	if m.starts.paced && takesStart(o, m.now()) {
		m.Quotas.Return(m.partition, 1)
	}
}

// takesStart reports whether an order leads to another start: not one whose message is sent again because
// nobody claimed it, nor one that ends its task.
func takesStart(o *task.Order, now task.Instant) bool {
	switch o.Event.Kind {
	case task.Enqueue:
		return (o.First || isRetry(*o)) && !o.Task.IsExpired(now)
	case task.WorkerLost:
		return true
	default:
		return false
	}
}

func countOrders(orders []task.Order, is func(o task.Order) bool) (n int) {
	for i := range orders {
		if is(orders[i]) {
			n++
		}
	}
	return n
}

// acquireStarts returns how many tasks a deliver lambda's partition may acquire now.
func (d *deliverMode) acquireStarts(now task.Instant, lead time.Duration) (allowed int) {
	d.quota = quotaWait{}
	if !d.hasQuota() {
		d.stats.heldByQuota.Store(0)
		return batchRowsMax
	}
	waiting := d.buffer.count(now.Add(lead), partitionRowsMax)
	allowed, d.quota = d.takeStarts(min(waiting, batchRowsMax), waiting)
	var held int64
	if d.quota.isSet() {
		held = int64(max(0, d.buffer.count(now, partitionRowsMax)-allowed))
	}
	d.stats.heldByQuota.Store(held)
	return allowed
}

// returnUnused gives back starts for which no task was acquired.
func (d *deliverMode) returnUnused(starts int) {
	if starts > 0 && d.hasQuota() {
		d.Quotas.Return(d.partition, starts)
	}
}
