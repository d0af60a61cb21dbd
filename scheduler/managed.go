package scheduler

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// roomCheckEvery is how often a full queue is asked for room that cannot tell by itself.
const roomCheckEvery = 20 * time.Millisecond

// dispatchDue implements mode. Each call that returns is progress: in an outage a round may take long, and is
// not stuck.
func (m *managedMode) dispatchDue(ctx context.Context) (busy bool, err error) {
	m.unsent, m.room, m.starts = false, queueRoom{}, startBudget{}
	m.inFlight.slots.begin()
	m.releaseRetries()
	r := newRecheck(m)
	defer r.end(ctx)
	defer func() {
		if m.keys != nil {
			m.keys.blocked = m.room.lacking
		}
		m.endKeyRound()
	}()
	ids, checked := r.checkInFlight(ctx)
	taken := m.takeDue(ctx, r.now)
	orders, reads := m.firstOrders(taken, r.now)
	var failed error
	if len(ids)+len(reads) > 0 {
		var more []task.Order
		more, failed = m.readRows(ctx, r, ids, reads, len(orders))
		orders = append(orders, more...)
	}
	m.returnStarts(orders, r.now)
	err = errors.Join(failed, m.carryOut(ctx, orders))
	m.inFlight.slots.rest()
	m.stats.queueFull.Store(m.room.lacking && !m.unsent)
	m.stats.heldByQueue.Store(m.heldByQueue())
	m.stats.overBudget.Store(int64(len(m.overBudget)))
	return checked+len(taken) > 0, err
}

// takeDue takes what is due from the buffer. Early entries go when one of them is due within half the lead:
// then all that are due within the whole of it go together.
func (m *managedMode) takeDue(ctx context.Context, now task.Instant) []entry {
	if at, ok := m.buffer.nextDispatch(m.Lead/2, false); (!ok || at > now) && m.keysReady() == 0 {
		return nil
	}
	var room int
	room, m.room = m.queueRoom(ctx)
	allowed, wait := m.startsFor(now, room)
	keyed := m.takeKeyed(ctx, now, allowed)
	var taken []entry
	taken, m.room.lacking = m.buffer.take(now, m.Lead, batchRowsMax, allowed-len(keyed))
	if m.keys != nil && len(m.keys.queue.ready) > 0 && len(keyed)+len(taken) < batchRowsMax {
		m.room.lacking = true
	}
	m.room.quota = wait
	return append(keyed, taken...)
}

// heldByQueue returns how many tasks that are due wait for room in their queue alone.
func (m *managedMode) heldByQueue() int64 {
	if !m.room.lacking || m.room.quota.isSet() || m.unsent {
		return 0
	}
	return m.dueInBuffer(m.now())
}

// queueRoom returns how many more messages the partition's queue takes.
func (m *managedMode) queueRoom(ctx context.Context) (messages int, room queueRoom) {
	name := queue.Name{Lambda: m.partition.Lambda, Priority: m.partition.Priority}
	messages, room.back = m.dispatcher.Room(ctx, name)
	m.stats.progress.mark(m.Clock)
	return messages, room
}

// firstOrders returns the orders for tasks that have no task row, and the entries that have to be read first.
func (m *managedMode) firstOrders(taken []entry, now task.Instant) (orders []task.Order, reads []entry) {
	orders = make([]task.Order, 0, len(taken))
	for i := range taken {
		if taken[i].mustRead {
			reads = append(reads, taken[i])
		} else if o := firstOrder(taken[i].row); m.mayStart(&taken[i], &o, now) {
			orders = append(orders, o)
		}
	}
	return orders, reads
}

// mayStart reports whether neither a gate nor its limit key holds a task that has no task row.
func (m *managedMode) mayStart(e *entry, o *task.Order, now task.Instant) bool {
	return (len(m.held.gates) == 0 || m.gateFirst(e, o, now)) && (m.keys == nil || m.keyFirst(o))
}

// readRows reads the task rows of tasks in flight and of wake-up rows, and returns the orders that follow.
// sent is how many messages this round sends besides.
func (m *managedMode) readRows(ctx context.Context, r *recheck, ids []task.ID, reads []entry, sent int) (orders []task.Order, err error) {
	all := slices.Clip(ids)
	for i := range reads {
		all = append(all, reads[i].id)
	}
	rows, err := m.taskRows(ctx, m.partition, all)
	m.stats.progress.mark(m.Clock)
	if err != nil {
		m.unsent = slices.ContainsFunc(reads, func(e entry) bool { return e.sends })
		for _, e := range reads {
			m.buffer.add(e)
		}
		return nil, err
	}
	live := m.followRows(ids, rows, r.now)
	more, first := m.followWakeups(ctx, reads, rows[len(ids):], r.now)
	decided, err := r.decideAll(ctx, append(live, more...))
	return append(first, m.withinRoom(ctx, decided, sent+len(first))...), err
}

// followRows acts on the rows of tasks in flight, and returns those that live.
func (m *managedMode) followRows(ids []task.ID, rows []task.Task, now task.Instant) (live []task.Task) {
	for i, id := range ids {
		switch row := &rows[i]; {
		case row.ID.IsZero():
			m.followMissing(id, now)
		case row.State.IsEnd():
			m.followEnded(row)
		case row.IsBare():
			m.inFlight.postpone(id, now.Add(brokenRowPause))
		default:
			m.resendIfLost(row)
			live = append(live, *row)
		}
	}
	return live
}

// followWakeups acts on wake-up rows whose task rows were read. It returns the task rows that live, and the orders for
// tasks that have none and a slot of their limit key.
func (m *managedMode) followWakeups(ctx context.Context, reads []entry, rows []task.Task, now task.Instant) (live []task.Task, first []task.Order) {
	var stale []task.Task
	for i := range reads {
		e, row := &reads[i], &rows[i]
		switch store.Conclude(e.row, row, m.nowWithoutSteps()) {
		case store.Undispatched: // it waits for room like the others
			if m.isStale(e.row, now) {
				stale = append(stale, *e.row)
				continue
			}
			o := firstOrder(e.row)
			switch keyed := m.isKeyLimited(&o.Task); {
			case keyed && m.keys.taken[o.Task.ID] != nil: // a list without memory for the task would have it read again, for ever
				if m.mayStart(e, &o, now) {
					first = append(first, o)
				}
			case keyed:
				m.offerRow(&o.Task, keyRow{due: o.Task.WakeRow.At}, keyRead)
			default:
				m.buffer.add(entry{at: e.at, id: e.id, row: &o.Task, early: true, sends: true})
			}
		case store.Live:
			m.takeOver(row)
			live = append(live, *row)
		case store.Leftover:
			m.leftover = append(m.leftover, leftoverOf(e.row, row))
		case store.Unclear:
			m.held.unsure = true
			if !row.ID.IsZero() && row.IsBare() {
				m.leaveAlone(e.row)
			}
		}
	}
	if len(stale) > 0 {
		m.leftover = append(m.leftover, m.setAside(ctx, m.partition, stale)...)
		m.stats.progress.mark(m.Clock)
	}
	return live, first
}

// followMissing acts on a task in flight that has no task row: its message may wait in this process's memory.
// When the message is no longer valid, the next read-ahead brings the wake-up row again, if it is still
// there.
func (m *managedMode) followMissing(id task.ID, now task.Instant) {
	one := m.inFlight.byID[id]
	if one == nil {
		return
	}
	if now < one.sentUntil {
		m.inFlight.postpone(id, one.sentUntil)
		return
	}
	at := one.wakeRowAt
	m.inFlight.drop(id)
	if m.held.some && len(m.held.gates) > 0 { // a gate may hold it, and many before it
		m.held.unsure = true
		return
	}
	m.reader.ahead.restartAt(at)
}

// followEnded acts on a task in flight that has ended. Its wake-up row is deleted by whoever ended it. The
// deletion is not sure when the message was sent before the task had a row: a scan that found the wake-up row
// would send it again.
func (m *managedMode) followEnded(row *task.Task) {
	if one := m.inFlight.byID[row.ID]; one != nil && !one.sentUntil.IsZero() {
		m.leftover = append(m.leftover, *row)
	}
	m.inFlight.drop(row.ID)
}

// withinRoom leaves retries for which the queue has no room to a later round. They stay in flight, so that a
// scan need not find them again.
func (m *managedMode) withinRoom(ctx context.Context, orders []task.Order, sent int) []task.Order {
	orders = m.withinRetryBudget(m.keyOrders(orders))
	now := m.now()
	paced := m.hasQuota()
	needsRoom := func(o task.Order) bool {
		return (isRetry(o) || paced && o.Event.Kind == task.WorkerLost) && !o.Task.IsExpired(now)
	}
	if !slices.ContainsFunc(orders, needsRoom) {
		return orders
	}
	messages, room := m.queueRoom(ctx)
	messages, room.quota = m.retryStarts(messages-sent, sent, countOrders(orders, needsRoom))
	slots, wait := m.retrySlots(messages, sent, countOrders(orders, isRetry))
	if wait.isSet() {
		room.quota = wait
	}
	kept := orders[:0]
	for i := range orders {
		if needsRoom(orders[i]) {
			messages--
			if isRetry(orders[i]) {
				slots--
			}
			if messages < 0 || slots < 0 && isRetry(orders[i]) {
				m.returnRetry(&orders[i])
				m.room = queueRoom{lacking: true, back: room.back, quota: room.quota}
				t := orders[i].Task
				if orders[i].Event.Kind == task.WorkerLost {
					m.keepLost(&t, room.quota)
					continue
				}
				if m.keyAgain(&t) {
					continue
				}
				m.buffer.add(entry{at: m.delayed(t.Wake), id: t.ID, row: &t, mustRead: true, sends: true})
				m.leaveAlone(&t)
				continue
			}
		}
		kept = append(kept, orders[i])
	}
	return kept
}

// keepLost leaves the task of a lost worker, for which there is no start, to a later round. It keeps its
// slots meanwhile.
func (m *managedMode) keepLost(t *task.Task, wait quotaWait) {
	at := m.now().Add(roomCheckEvery)
	if wait.isSet() {
		at = wait.again
	}
	m.inFlight.put(m.inFlightAt(t, at))
	if m.isKeyLimited(t) {
		m.keys.slots.unstarted(t.LimitKey)
	}
}

// carryOut gives orders to the dispatcher and notes what is in flight then. An order that fails is tried
// again by the next round; an error is returned only when that may help.
func (m *managedMode) carryOut(ctx context.Context, orders []task.Order) (failed error) {
	if len(m.resend) > 0 {
		m.dispatcher.Send(ctx, m.resend)
		m.stats.progress.mark(m.Clock)
		m.resend = nil
	}
	if len(orders) > 0 {
		for i := range orders {
			orders[i].Event.By = m.Process
		}
		m.inTurn(orders)
		results := m.dispatcher.Dispatch(ctx, orders)
		m.stats.progress.mark(m.Clock)
		for i := range results {
			if err := m.settle(ctx, &orders[i], &results[i]); err != nil && failed == nil {
				failed = err
			}
		}
	}
	m.dispatcher.Remove(ctx, m.leftover)
	m.leftover = nil
	return failed
}

// settle notes the result of an order.
func (m *managedMode) settle(ctx context.Context, o *task.Order, r *task.Dispatched) error {
	switch {
	case !r.Again.IsZero():
		m.returnStart(o)
		m.returnRetry(o)
		row := o.Task
		f := m.inFlightAt(&row, r.Again)
		f.undecided = &row
		m.inFlight.put(f)
		return nil
	case r.Err == nil && !r.Done:
		m.returnStart(o)
		m.returnRetry(o)
		m.settleMoved(o, &r.Task)
		return nil
	case r.Done:
		m.noteStart(o.Task.ID)
		if !r.Task.State.IsEnd() {
			m.earnRetries(o)
		}
		if (!o.First || o.Event.Kind == task.Drop) && m.Hooks.Waked != nil {
			m.Hooks.Waked(&o.Task, o.Event.Kind)
		}
		if r.Task.State.IsEnd() && m.Hooks.Ended != nil {
			m.Hooks.Ended(&r.Task)
		}
		m.follow(&r.Task)
		return nil
	}
	m.unsent = m.unsent || o.Event.Kind == task.Enqueue
	m.returnRetry(o) // most likely it was not started, and it will be tried again
	switch {
	case isPermanent(r.Err):
		m.leaveAlone(&o.Task)
	case m.limited && takesStart(o, m.now()):
		m.holdUnsure(&o.Task)
	case o.First:
		m.buffer.add(entry{at: m.delayed(o.Task.WakeRow.At), id: o.Task.ID, row: &o.Task, early: true, sends: true})
	default:
		m.inFlight.put(m.inFlightAt(&o.Task, m.now()))
	}
	return m.retryable(ctx, m.partition, r.Err)
}

// holdUnsure keeps the slot of a task that may have been dispatched, until its row is read.
func (m *managedMode) holdUnsure(t *task.Task) {
	f := m.inFlightAt(t, m.now().Add(reclaimPause))
	f.holdsSlot, f.waiting = true, false
	m.inFlight.put(f)
}

// settleMoved notes a task that somebody else has changed. If it was enqueued in this process's name, its
// message may not have been sent.
func (m *managedMode) settleMoved(o *task.Order, row *task.Task) {
	if row.ID.IsZero() {
		m.inFlight.drop(o.Task.ID) // a scan finds what there is
		m.held.unsure = true
		return
	}
	if o.First && row.State == task.Enqueued && row.Attempt == 0 && row.Worker == m.Process {
		m.resend = append(m.resend, *row)
	}
	switch store.Conclude(&o.Task, row, m.nowWithoutSteps()) {
	case store.Live:
		m.takeOver(row)
		m.follow(row)
	case store.Leftover:
		if m.inFlight.has(row.ID, o.Task.WakeRow.At) {
			m.inFlight.drop(row.ID)
		}
		m.leftover = append(m.leftover, leftoverOf(&o.Task, row))
	case store.Undispatched, store.Unclear:
	}
}

// next implements mode.
func (m *managedMode) next(now task.Instant) (at task.Instant, room <-chan struct{}) {
	at = never
	switch {
	case m.room.lacking && m.room.quota.isSet():
		at, room = min(at, m.room.quota.again), m.room.quota.more
	case m.room.lacking:
		room = m.room.back
		select {
		case <-room: // the queue's own bound is further away than the dispatcher's, so it tells nothing
			room = nil
		default:
		}
		if room == nil {
			at = now.Add(roomCheckEvery)
		}
	}
	if due, ok := m.buffer.nextDispatch(m.Lead/2, m.room.lacking); ok {
		at = min(at, due)
	}
	at = min(at, m.nextKey(now, m.room.lacking))
	if len(m.overBudget) > 0 {
		at = min(at, now.Add(overBudgetPoll))
	}
	if check, ok := m.inFlight.next(); ok {
		at = min(at, max(check, now.Add(m.breaker.Left(m.Clock))))
	}
	return at, room
}
