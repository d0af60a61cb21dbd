package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// oddLook is when a row is looked at again that cannot be moved on.
const oddLook = 30 * time.Second

// managing fires a partition of a managed lambda: what is due is dispatched as far as the queue has room, and
// what is in flight is looked at when its time comes. What runs never waits behind what is to be sent.
type managing struct {
	l        *loop
	unsent   bool // something that there was room for in this round could not be sent
	full     fullness
	resend   []task.Task // enqueued tasks whose messages may not be on their queue
	remnants []task.Task // wake-up rows that nobody needs

	askRetry    task.Instant // no lease or queue is asked before then, after a round in which some did not answer
	askFailures int          // such rounds in a row
}

// fullness says what a round left because the queue had no room.
type fullness struct {
	left bool
	room <-chan struct{} // closed when there is room again; nil when the queue cannot tell
}

func (m *managing) end(context.Context) {}

// fire implements firing. Each call that comes back is progress: in an outage a round may take long, and is
// not stuck.
func (m *managing) fire(ctx context.Context) (busy bool, err error) {
	m.unsent, m.full = false, fullness{}
	j := newJudgement(m)
	defer j.end(ctx)
	ids, looked := j.lookAtFlight(ctx)
	taken := m.take(ctx, j.now)
	orders, reads := firstOrders(taken)
	var failed error
	if len(ids)+len(reads) > 0 {
		var more []task.Order
		more, failed = m.readAndJudge(ctx, j, ids, reads, len(orders))
		orders = append(orders, more...)
	}
	err = errors.Join(failed, m.dispatch(ctx, orders))
	m.l.crowded.Store(m.full.left && !m.unsent)
	return looked+len(taken) > 0, err
}

// take takes what is due, and what is fired ahead if some of that is due within half the lead: then all that
// is due within the whole of it goes together.
func (m *managing) take(ctx context.Context, now task.Instant) []entry {
	lead := m.l.s.Lead
	if at, ok := m.l.ahead.nextFiring(lead/2, false); !ok || at > now {
		return nil
	}
	var room int
	room, m.full = m.queueRoom(ctx)
	var taken []entry
	taken, m.full.left = m.l.ahead.take(now, lead, batchRowsMax, room)
	return taken
}

// queueRoom is how many more messages the partition's queue takes.
func (m *managing) queueRoom(ctx context.Context) (room int, full fullness) {
	name := queue.Name{Lambda: m.l.partition.Lambda, Priority: m.l.partition.Priority}
	room, full.room = m.l.s.Dispatcher.Room(ctx, name)
	m.l.progress.mark(m.l.s.Clock)
	return room, full
}

// firstOrders are the orders for tasks that have no task row; the other entries are to be read first.
func firstOrders(taken []entry) (orders []task.Order, reads []entry) {
	orders = make([]task.Order, 0, len(taken))
	for i := range taken {
		if taken[i].read {
			reads = append(reads, taken[i])
		} else {
			orders = append(orders, firstOrder(taken[i].row))
		}
	}
	return orders, reads
}

// firstOrder dispatches the task that a wake-up row holds.
func firstOrder(row *task.Task) task.Order {
	return task.Order{Task: row.Undispatched(), First: true, Event: task.Event{Kind: task.Enqueue}}
}

// readAndJudge reads the task rows of tasks in flight and of wake-up rows, and says what follows from them.
// sent is how many messages this round sends besides.
func (m *managing) readAndJudge(ctx context.Context, j *judgement, ids []task.ID, reads []entry, sent int) (orders []task.Order, err error) {
	all := slices.Clip(ids)
	for i := range reads {
		all = append(all, reads[i].id)
	}
	rows, err := m.l.s.Store.Tasks(ctx, all)
	m.l.progress.mark(m.l.s.Clock)
	if isLasting(err) && len(all) == 1 { // of that row: it cannot be read
		rows, err = []task.Task{{ID: all[0]}}, m.l.s.worthRetry(ctx, m.l.partition, err)
	}
	if err != nil {
		m.unsent = slices.ContainsFunc(reads, func(e entry) bool { return e.sends })
		for _, e := range reads {
			m.l.ahead.add(e)
		}
		return nil, err
	}
	live := make([]task.Task, 0, len(rows))
	for i, id := range ids {
		switch row := &rows[i]; {
		case row.ID.IsZero():
			m.seekAgain(id, j.now)
		case row.State.IsEnd():
			m.leave(row)
		case row.IsBare():
			m.l.flight.rest(id, j.now.Add(oddLook))
		default:
			m.wantMessage(row)
			live = append(live, *row)
		}
	}
	var doubtful []task.Task
	for i := range reads {
		e, row := &reads[i], &rows[len(ids)+i]
		switch store.Conclude(e.row, row, m.l.nowWithoutSteps()) {
		case store.Undispatched: // it waits for room like the others
			if m.l.s.isDoubtful(e.row, j.now) {
				doubtful = append(doubtful, *e.row)
				continue
			}
			t := firstOrder(e.row).Task
			m.l.ahead.add(entry{at: e.at, id: e.id, row: &t, first: true, sends: true})
		case store.Live:
			m.takeOver(row)
			live = append(live, *row)
		case store.Leftover:
			m.remnants = append(m.remnants, *e.row)
		case store.Unclear:
			if !row.ID.IsZero() && row.IsBare() {
				m.putAside(e.row)
			}
		}
	}
	m.setAside(ctx, doubtful)
	judged, err := j.judge(ctx, live)
	return m.withinRoom(ctx, judged, sent), err
}

// seekAgain is for a task in flight that has no task row: its message may wait in this process's memory. When
// that is good no more, the next look brings the wake-up row again, if the task is still there.
func (m *managing) seekAgain(id task.ID, now task.Instant) {
	one := m.l.flight.byID[id]
	if one == nil {
		return
	}
	if now < one.until {
		m.l.flight.rest(id, one.until)
		return
	}
	place := one.place
	m.l.flight.drop(id)
	m.l.look.from(place)
}

// leave is for a task in flight that has ended. Whoever ended it deletes its wake-up row; only of one whose
// message was sent before it had a row is that not sure: a look that met the wake-up row again would send it
// again.
func (m *managing) leave(row *task.Task) {
	if one := m.l.flight.byID[row.ID]; one != nil && !one.until.IsZero() {
		m.remnants = append(m.remnants, *row)
	}
	m.l.flight.drop(row.ID)
}

// takeOver tells of a task that was claimed before this process knew of it, or has its message sent again.
func (m *managing) takeOver(t *task.Task) {
	if t.State == task.Claimed && m.l.s.Found != nil && !m.l.guest {
		m.l.s.Found(t)
	}
	m.wantMessage(t)
}

// wantMessage has the message sent again of a task that was enqueued by a process that has gone, just before
// it went, or whose message was in its memory. What else is enqueued follows its timer.
func (m *managing) wantMessage(t *task.Task) {
	s, now := m.l.s, m.l.now()
	switch {
	case m.l.guest:
	case t.State != task.Enqueued || wakesAt(t, now) <= now: // its wake-up sends it
	case !s.Queue.Durable() && t.Enqueued < m.l.since.Add(m.l.basis), s.isGone(t.Worker) && now.Sub(t.Enqueued) < task.EnqueueTimeout:
		m.resend = append(m.resend, *t)
	}
}

// withinRoom leaves retries for which the queue has no room to a later round. They stay in flight, so that a
// look need not meet them again.
func (m *managing) withinRoom(ctx context.Context, orders []task.Order, sent int) []task.Order {
	if !slices.ContainsFunc(orders, isRetry) {
		return orders
	}
	room, full := m.queueRoom(ctx)
	room -= sent
	kept := orders[:0]
	for i := range orders {
		if isRetry(orders[i]) {
			if room--; room < 0 {
				m.full = fullness{left: true, room: full.room}
				t := orders[i].Task
				m.l.ahead.add(entry{at: m.l.later(t.Wake), id: t.ID, row: &t, read: true, sends: true})
				m.putAside(&t)
				continue
			}
		}
		kept = append(kept, orders[i])
	}
	return kept
}

// isRetry reports whether an order puts a task on its queue that waited in its row.
func isRetry(o task.Order) bool { return !o.First && isParked(&o.Task) }

// isParked reports whether a task waits in its row until it wakes.
func isParked(t *task.Task) bool {
	return t.State == task.RetriableFailure || t.State == task.Scheduled
}

// dispatch gives orders to the dispatcher and notes what is in flight then. What fails is tried again by the
// next round; the error is the partition's only when trying again may help.
func (m *managing) dispatch(ctx context.Context, orders []task.Order) (failed error) {
	l := m.l
	m.sendMessages(ctx)
	if len(orders) > 0 {
		failed = m.carryOut(ctx, orders)
	}
	l.s.Dispatcher.Remove(ctx, m.remnants)
	m.remnants = nil
	return failed
}

// carryOut has the dispatcher carry out orders, and settles each.
func (m *managing) carryOut(ctx context.Context, orders []task.Order) (failed error) {
	l := m.l
	for i := range orders {
		orders[i].Event.By = l.s.Process
	}
	results := l.s.watchWrites(func() []task.Dispatched {
		ctx, done := limited(ctx, l.s.Clock)
		defer done()
		return l.s.Dispatcher.Dispatch(ctx, orders)
	})
	l.progress.mark(l.s.Clock)
	for i := range results {
		if err := m.settle(ctx, &orders[i], &results[i]); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

// sendMessages sends those that may not be on their queue. What is not sent within the time of a write waits
// for its task's enqueue timeout.
func (m *managing) sendMessages(ctx context.Context) {
	if len(m.resend) == 0 {
		return
	}
	ctx, done := limited(ctx, m.l.s.Clock)
	defer done()
	m.l.s.Dispatcher.Send(ctx, m.resend)
	m.l.progress.mark(m.l.s.Clock)
	m.resend = nil
}

// settle notes what became of an order.
func (m *managing) settle(ctx context.Context, o *task.Order, r *task.Dispatched) error {
	l := m.l
	switch {
	case r.Err == nil && !r.Done:
		m.movedOn(o, &r.Task)
		return nil
	case r.Done:
		if !o.First && l.s.Hooks.Waked != nil {
			l.s.Hooks.Waked(&o.Task, o.Event.Kind)
		}
		m.follow(&r.Task)
		return nil
	}
	m.unsent = m.unsent || o.Event.Kind == task.Enqueue
	switch {
	case isLasting(r.Err):
		m.putAside(&o.Task)
	case o.First:
		l.ahead.add(entry{at: l.later(o.Task.WakeRow.At), id: o.Task.ID, row: &o.Task, first: true, sends: true})
	default:
		l.flight.put(l.flightOf(&o.Task, l.now()))
	}
	return l.s.worthRetry(ctx, l.partition, r.Err)
}

// movedOn notes a task that somebody else moved. The message of one that was enqueued here may not have been
// sent.
func (m *managing) movedOn(o *task.Order, row *task.Task) {
	if row.ID.IsZero() {
		m.l.flight.drop(o.Task.ID) // a look finds what there is
		return
	}
	if o.First && row.State == task.Enqueued && row.Attempt == 0 && row.Worker == m.l.s.Process {
		m.resend = append(m.resend, *row)
	}
	switch store.Conclude(&o.Task, row, m.l.nowWithoutSteps()) {
	case store.Live:
		m.takeOver(row)
		m.follow(row)
	case store.Leftover:
		m.l.flight.drop(row.ID)
		m.remnants = append(m.remnants, o.Task)
	case store.Undispatched, store.Unclear:
	}
}

// follow notes when to look at a task again. The owner of a partition does; a guest has done what it was
// told.
func (m *managing) follow(t *task.Task) {
	if t.State.IsEnd() || m.l.guest {
		m.l.flight.drop(t.ID)
		return
	}
	m.l.await(t, isParked(t))
}

// putAside leaves a row alone for a while that an error keeps where it is for good, so that looks need not
// meet it again and again, and what is behind it with it.
func (m *managing) putAside(t *task.Task) {
	m.l.flight.put(m.l.flightOf(t, m.l.now().Add(oddLook)))
}

// next implements firing.
func (m *managing) next(now task.Instant) (at task.Instant, room <-chan struct{}) {
	l := m.l
	at = now.Add(idleMax)
	if m.full.left {
		room = m.full.room
		if isClosed(room) {
			room = nil // the queue's own bound is further away than ours, so it tells nothing
		}
		if room == nil {
			at = now.Add(roomEvery)
		}
	}
	if due, ok := l.ahead.nextFiring(l.s.Lead/2, m.full.left); ok {
		at = min(at, due)
	}
	if look, ok := l.flight.next(); ok {
		if waits(now, m.askRetry) {
			look = max(look, m.askRetry)
		}
		at = min(at, look)
	}
	return at, room
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// isLasting reports whether an error is of one row, and the same each time.
func isLasting(err error) bool {
	lasting := []error{store.ErrMalformed, store.ErrTooLarge, store.ErrCorrupt, store.ErrVersion}
	return slices.ContainsFunc(lasting, func(l error) bool { return errors.Is(err, l) })
}

// worthRetry passes an error on unless it is of one row that will fail in the same way again: such a
// row must not hold up the others, so it is told of and left alone for a while.
func (s *Scheduler) worthRetry(ctx context.Context, p task.Partition, err error) error {
	if isLasting(err) {
		s.failed(p, err)
		s.Log.ErrorContext(ctx, "task cannot be moved on", slog.String("partition", p.String()), slog.Any("error", err))
		return nil
	}
	return err
}
