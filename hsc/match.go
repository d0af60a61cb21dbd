package hsc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// idleAfter is how long a group must have waited for a message to be idle: by then it would have what lay
	// in any of its queues, so that a task that is matched overtakes none.
	idleAfter = 100 * time.Microsecond
	// matchLooksMax bounds the groups that are looked at for one task.
	matchLooksMax = 64
)

// seats are the groups of all open streams, by the lambdas that they serve.
type seats struct {
	mu       sync.Mutex // held to replace byLambda
	byLambda atomic.Pointer[map[string][]seat]
	turn     atomic.Uint32 // so that groups take turns at being looked at first
}

type seat struct {
	stream *stream
	group  *group
}

func (s *seats) add(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(*s.byLambda.Load())
	for _, g := range st.groups {
		for _, lambda := range g.lambdas {
			next[lambda] = append(slices.Clip(next[lambda]), seat{st, g})
		}
	}
	s.byLambda.Store(&next)
}

func (s *seats) remove(st *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := maps.Clone(*s.byLambda.Load())
	for _, g := range st.groups {
		for _, lambda := range g.lambdas {
			rest := slices.DeleteFunc(slices.Clone(next[lambda]), func(s seat) bool { return s.stream == st })
			if next[lambda] = rest; len(rest) == 0 {
				delete(next, lambda)
			}
		}
	}
	s.byLambda.Store(&next)
}

// Slot is a free slot of a worker that is reserved for one task. Whoever gets one owes it a Settle.
type Slot struct {
	stream *stream
	entry  *catalog.Entry
	hand   hand
}

// Match reserves a slot for a task that is to go out, so that it can be stored as claimed and needs no
// message; nil when it has to go through its queue. It grants what the usual turns would: a slot that is
// free, of a worker whose lease is good, where all queues that the slot serves were empty. Suspects keep to
// their turns. It does no I/O.
func (s *Service) Match(t *task.Task) *Slot {
	entry := s.Catalog.ByRef(t.Partition.Lambda)
	if t.Suspect || entry == nil || entry.Deleting || entry.Mode != task.Managed {
		return nil
	}
	all := (*s.seats.byLambda.Load())[entry.Name]
	if len(all) == 0 {
		return nil
	}
	first, now := s.seats.turn.Add(1), clock.Mono(s.Clock)
	for i := range min(len(all), matchLooksMax) {
		at := all[(first+uint32(i))%uint32(len(all))]
		if at.group.isIdle(now) && at.stream.reserve(at.group) {
			return &Slot{stream: at.stream, entry: entry, hand: hand{group: at.group}}
		}
	}
	return nil
}

// Serves reports whether a worker has a stream here that serves the task's lambda.
func (s *Service) Serves(t *task.Task) bool {
	entry := s.Catalog.ByRef(t.Partition.Lambda)
	return entry != nil && len((*s.seats.byLambda.Load())[entry.Name]) > 0
}

// isIdle reports whether the group has waited for a message for a moment. It is a hint: reserve has the last
// word.
func (g *group) isIdle(now time.Duration) bool {
	since := time.Duration(g.waits.Load())
	return since != 0 && now-since >= idleAfter
}

// reserve takes a free slot, never one beyond the slots. A group that is full then stops receiving: a message
// that it got now would have to go back.
func (st *stream) reserve(g *group) bool {
	if st.ctx.Err() != nil || !st.sess.isGood(st.svc.Clock) {
		return false
	}
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	if st.draining || st.closed || st.sess.closed() || g.used >= g.slots || g.room() <= 0 {
		return false
	}
	if g.used++; g.room() <= 0 && g.interrupt != nil {
		g.interrupt()
	}
	return true
}

// Worker is whom the slot belongs to.
func (m *Slot) Worker() string { return m.stream.sess.worker }

// Lease is the length of that worker's lease.
func (m *Slot) Lease() time.Duration { return m.stream.sess.lease }

// Settle says what became of the write of the task as claimed. One that is stored goes to the worker; else
// the slot is free again. Where that is not known, the row tells.
func (m *Slot) Settle(claimed *task.Task, outcome error) {
	row := *claimed
	m.hand.row = &row
	switch {
	case errors.Is(outcome, store.ErrUnknown):
		m.stream.svc.aside(m.readBack)
	case outcome != nil:
		m.release()
	default:
		m.stored()
	}
}

// readBack finds out whether the task is stored. It keeps the slot meanwhile, which bounds how many tasks are
// in doubt. If the stream ends first, and the task is stored, its wake-up finds that the worker never
// confirmed it.
func (m *Slot) readBack() {
	st, row, retry := m.stream, m.hand.row, backoff{}
	for {
		rows, err := st.svc.Store.Tasks(context.WithoutCancel(st.ctx), []task.ID{row.ID})
		switch {
		case err == nil && sameClaim(&rows[0], row):
			m.stored()
			return
		case err == nil:
			m.release()
			return
		}
		st.svc.Hooks.failed("match", err)
		if !retry.sleep(st.ctx, st.svc.Clock) {
			m.release()
			return
		}
	}
}

// stored sees to it that the worker gets the task.
func (m *Slot) stored() {
	if m.hand.row.PayloadStoredApart() {
		m.stream.svc.aside(m.fetch)
		return
	}
	m.push(nil)
}

// push hands the task to the worker; on a stream that is closed by now it goes back.
func (m *Slot) push(payload []byte) {
	s, row := m.stream.svc, m.hand.row
	s.Hooks.claimed(m.entry, row, s.Clock.Now())
	s.Hooks.matched(m.entry, row)
	m.stream.deliver(m.hand.group, []delivery{{&m.hand, s.wireClaimed(row, m.entry, payload)}})
}

// fetch is push of a task whose payload is stored apart.
func (m *Slot) fetch() {
	s, row, ctx := m.stream.svc, m.hand.row, context.WithoutCancel(m.stream.ctx)
	payload, err := s.Store.Payload(ctx, row.PayloadID())
	switch {
	case err == nil:
		m.push(payload)
	case errors.Is(err, store.ErrNotFound):
		m.release()
		s.failWithoutPayload(ctx, m.stream.sess, row)
	default:
		s.Hooks.failed("read a payload", err)
		m.giveBack()
	}
}

// giveBack puts the task, which is stored, back into its queue.
func (m *Slot) giveBack() {
	m.release()
	m.stream.svc.giveBack(m.stream.ctx, m.stream.sess, []task.Task{*m.hand.row})
}

func (m *Slot) release() { m.stream.sess.giveSlots(m.hand.group, 1) }

// aside does what may take a while without holding up who asks for it.
func (s *Service) aside(act func()) {
	if s.begin() != nil {
		act()
		return
	}
	go func() {
		defer s.end()
		act()
	}()
}
