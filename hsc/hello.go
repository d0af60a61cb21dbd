package hsc

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// open checks the hello of a worker and begins its stream, which takes over the attempts that the worker
// still holds.
func (s *Service) open(ctx context.Context, c conn, hello *kinesinv1.Hello) (*stream, error) {
	if hello == nil {
		return nil, errNoHello
	}
	groups, _, err := s.groupsOf(ctx, hello.GetGroups())
	if err != nil {
		return nil, err
	}
	if n := len(hello.GetHeld()); n > HeldMax {
		return nil, invalid("held %d attempts: want at most %d", n, HeldMax)
	}
	sess, err := s.session(ctx, hello.GetWorker())
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if err := checkCovered(sess, g.lambdas); err != nil {
			return nil, err
		}
	}
	held := attemptsOf(hello.GetHeld())
	var rows []task.Task
	if len(held) > 0 {
		if rows, err = s.taskRows(ctx, idsOf(held)); err != nil {
			return nil, s.unavailable(ctx, "read the tasks that the worker holds", err)
		}
	}
	st := &stream{
		svc: s, sess: sess, conn: c, groups: groups, requests: make(chan *kinesinv1.WorkRequest, requestsAheadMax),
		outboxReady: make(chan struct{}, 1), outboxTaken: make(chan struct{}, 1),
	}
	st.ctx, st.stop = context.WithCancelCause(ctx)
	st.detach = context.AfterFunc(s.lifetime, func() { st.stop(errStopping) })
	s.release(ctx, sess, append(st.takeOver(held, rows), s.unheldClaims(sess)...))
	if err := s.admitStream(st); err != nil {
		st.close()
		return nil, err
	}
	st.process = s.processOf(c, hello.GetProcess())
	return st, nil
}

// admitStream refuses a stream whose lease ended while it was opened.
func (s *Service) admitStream(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.sess.isLost() {
		return leaseLost(st.sess.worker)
	}
	s.sessions[st.sess.worker] = st.sess
	return nil
}

// groupsOf checks the slot groups of a process, and returns which of their lambdas do not exist: tasks of these are claimed
// once they exist. If none exists, groupsOf returns an error.
func (s *Service) groupsOf(ctx context.Context, wire []*kinesinv1.SlotGroup) (groups []*slotGroup, missing []string, err error) {
	if len(wire) > GroupsMax {
		return nil, nil, invalid("%d slot groups: want at most %d", len(wire), GroupsMax)
	}
	groups = make([]*slotGroup, 0, len(wire))
	slots, names := 0, 0
	for _, w := range wire {
		slots += int(w.GetSlots())
		if w.GetSlots() == 0 || slots > SlotsMax {
			return nil, nil, invalid("slots %d: want 1 or more for each group and at most %d together", w.GetSlots(), SlotsMax)
		}
		unknown, err := s.checkLambdas(ctx, w.GetLambdas())
		if err != nil {
			return nil, nil, err
		}
		names, missing = names+len(w.GetLambdas()), append(missing, unknown...)
		groups = append(groups, &slotGroup{
			lambdas: w.GetLambdas(), slots: int(w.GetSlots()), slotsOnly: s.SlotsOnly, changed: make(chan struct{}, 1),
		})
	}
	return groups, missing, allMissing(missing, names)
}

// allMissing refuses a list of lambdas of which none exists.
func allMissing(missing []string, names int) error {
	if names == 0 || len(missing) < names {
		return nil
	}
	return api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, `unknown lambda "%s": create it first`, strings.Join(missing, `", "`))
}

// checkLambdas returns the lambdas that do not exist, and refuses those whose tasks no worker may run, or not this one.
func (s *Service) checkLambdas(ctx context.Context, names []string) (missing []string, err error) {
	if n := len(names); n == 0 || n > LambdasMax {
		return nil, invalid("%d lambdas: want 1 to %d", n, LambdasMax)
	}
	for _, name := range names {
		switch err := s.checkLambda(ctx, name); {
		case errors.Is(err, catalog.ErrUnknown):
			missing = append(missing, name)
		case err != nil:
			return nil, err
		}
	}
	return missing, nil
}

func (s *Service) checkLambda(ctx context.Context, name string) error {
	if s.Execute != nil {
		if err := s.Execute(ctx, name); err != nil {
			return err
		}
	}
	l, err := s.Catalog.Find(ctx, name)
	if err != nil {
		return err
	}
	if l.Mode == task.Deliver {
		return invalid("lambda %s is of mode deliver: its tasks are put on a queue for consumers outside Kinesin, and no worker runs them", name)
	}
	return nil
}

// takeOver makes st the stream of its worker. held are all attempts that the worker has, including those whose results were
// not acknowledged. takeOver returns the tasks that an earlier stream sent and the worker does not name: they have never
// arrived, and are to be released.
func (st *stream) takeOver(held []attempt, rows []task.Task) (unheld []task.Task) {
	sess := st.sess
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if old := sess.stream; old != nil {
		old.closed = true
		old.stop(errSuperseded)
	}
	sess.stream = st
	assigned := make(map[task.ID]*assignment, len(held))
	for i, a := range held {
		st.restore(assigned, a, &rows[i])
	}
	for id, a := range sess.assigned {
		if assigned[id] == nil && !a.freed {
			unheld = append(unheld, *a.row)
		}
	}
	sess.assigned = assigned
	return unheld
}

// restore assigns an attempt that the worker holds again, or tells the worker to stop it.
func (st *stream) restore(assigned map[task.ID]*assignment, a attempt, row *task.Task) {
	owned := owns(st.sess.worker, a, row)
	if !owned || row.CancelRequested {
		st.outbox.cancels = append(st.outbox.cancels, wireHeld(a))
	}
	if !owned || assigned[a.id] != nil {
		return
	}
	if suspect := &st.sess.suspect; a.id == suspect.id && suspect.claimed {
		wall, steady := clock.Both(st.svc.Clock)
		suspect.ends = steady.Add(min(row.ClaimedAt.Add(row.Quarantine()).Sub(wall), row.Quarantine())) // the clock may be set back
	}
	restored := &assignment{row: row, sent: true, group: st.groupOf(row)}
	if was := st.sess.assigned[a.id]; was != nil && was.freed {
		restored.freed, restored.group = true, nil
	}
	if restored.group != nil {
		restored.group.used++
	}
	assigned[a.id] = restored
}

// groupOf returns the slot group that serves the task's lambda, nil when there is none.
func (st *stream) groupOf(t *task.Task) *slotGroup {
	l := st.svc.Catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return nil
	}
	for _, g := range st.groups {
		if slices.Contains(g.lambdas, l.Name) {
			return g
		}
	}
	return nil
}
