package hsc

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// idleAfter is how long a slot group must have waited for a message to be idle: by then it would have what lay
// in any of its queues, so that a direct hand-off overtakes no task.
const idleAfter = 100 * time.Microsecond

// waiting is a slot group of a stream that is open, as it is registered.
type waiting struct {
	stream *stream
	group  *slotGroup
}

// IsIdle implements dispatcher.Waiting, as does Reserve.
func (w waiting) IsIdle(now time.Duration) bool { return w.group.isIdle(now) }

func (w waiting) Reserve(l *catalog.Entry) dispatcher.Slot {
	if !w.stream.reserve(w.group) {
		return nil
	}
	return &slot{stream: w.stream, entry: l, assignment: assignment{group: w.group}}
}

// slot is a free slot of a worker that is reserved for one task: all queues that it serves were empty.
type slot struct {
	stream     *stream
	entry      *catalog.Entry
	assignment assignment
}

// serves calls with each slot group of a stream and each lambda that it serves.
func (st *stream) serves(with func(lambda string, w dispatcher.Waiting)) {
	for _, g := range st.groups {
		for _, lambda := range g.lambdas {
			with(lambda, waiting{st, g})
		}
	}
}

// isIdle reports whether the group has waited for a message for a moment. It is a hint: reserve decides.
func (g *slotGroup) isIdle(now time.Duration) bool {
	since := time.Duration(g.idleSince.Load())
	return since != 0 && now-since >= idleAfter
}

// reserve takes a free slot, never one of the prefetch. A group that is full then stops receiving, because a
// message that it got now would have to go back.
func (st *stream) reserve(g *slotGroup) bool {
	if st.ctx.Err() != nil || !st.sess.holdsLease(st.svc.Clock) {
		return false
	}
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	if st.draining || st.closed || st.sess.inQuarantine() || g.used >= g.slots || g.room() <= 0 {
		return false
	}
	if g.used++; g.room() <= 0 && g.cancelReceive != nil {
		g.cancelReceive()
	}
	return true
}

// Worker implements dispatcher.Slot, as do Lease and Settle.
func (m *slot) Worker() string { return m.stream.sess.worker }

func (m *slot) Lease() time.Duration { return m.stream.sess.lease }

// Settle takes the outcome of the write of the task as claimed. If the task is stored, the worker gets it;
// otherwise the slot is free again. An unknown outcome is read back.
func (m *slot) Settle(claimed *task.Task, outcome error) {
	row := *claimed
	m.assignment.row = &row
	switch {
	case errors.Is(outcome, store.ErrUnknown):
		m.stream.svc.inBackground(m.readBack)
	case outcome != nil:
		m.free()
	default:
		m.stored()
	}
}

// readBack finds out whether the task is stored. It keeps the slot meanwhile, which bounds how many tasks are
// in doubt. If the stream ends first, and the task is stored, its wake-up finds that the worker never
// confirmed it.
func (m *slot) readBack() {
	st, row := m.stream, m.assignment.row
	for failures := 1; ; failures++ {
		rows, err := st.svc.taskRows(context.WithoutCancel(st.ctx), []task.ID{row.ID})
		switch {
		case err == nil && sameClaim(&rows[0], row):
			m.stored()
			return
		case err == nil:
			m.free()
			return
		}
		st.svc.Hooks.Failed("match", err)
		if storeRetry.Sleep(st.ctx, st.svc.Clock, failures) != nil {
			m.free()
			return
		}
	}
}

// stored delivers the task to the worker.
func (m *slot) stored() {
	row := m.assignment.row
	if row.PayloadStoredApart() || row.Chain != nil && row.Chain.FromParent {
		m.stream.svc.inBackground(m.readPayload)
		return
	}
	parent, err := m.stream.svc.readParent(m.stream.ctx, row) // which reads nothing
	if err != nil {
		m.stream.svc.inBackground(m.readPayload) // which fails in the same way, and says what becomes of the task
		return
	}
	m.deliver(nil, parent)
}

// deliver hands the task to the worker; on a stream that is closed by now it goes back.
func (m *slot) deliver(payload []byte, parent *kinesinv1.Parent) {
	s, row := m.stream.svc, m.assignment.row
	s.Hooks.Claimed(m.entry, row)
	s.Hooks.Matched(m.entry, row)
	m.stream.deliver(m.assignment.group, []delivery{{&m.assignment, s.wireClaimed(row, m.entry, payload, parent)}})
}

// readPayload delivers a task whose payload, or the rest of whose parent, is stored apart.
func (m *slot) readPayload() {
	s, row, ctx := m.stream.svc, m.assignment.row, context.WithoutCancel(m.stream.ctx)
	parent, err := s.readParent(ctx, row)
	if isDamaged(err) {
		m.free()
		s.failUnrun(ctx, m.stream.sess, row, parentDamaged)
		return
	}
	var payload []byte
	if err == nil && row.PayloadStoredApart() {
		payload, err = s.Store.Payload(ctx, row.PayloadID())
	}
	switch {
	case err == nil:
		m.deliver(payload, parent)
	case errors.Is(err, store.ErrNotFound):
		m.free()
		s.failUnrun(ctx, m.stream.sess, row, store.PayloadMissing)
	case isDamaged(err):
		s.Hooks.Failed("read a payload", err)
		m.free()
		s.failUnrun(ctx, m.stream.sess, row, store.PayloadDamaged)
	default:
		s.Hooks.Failed("read a payload", err)
		m.free()
		s.release(ctx, m.stream.sess, []task.Task{*row})
	}
}

func (m *slot) free() { m.stream.sess.returnSlots(m.assignment.group, 1) }
