package hsc

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// Heartbeat renews the lease of the whole process, and answers which of the named attempts are to stop. It
// confirms the named attempts before it renews: whoever reads in the lease that a heartbeat came may rely on
// it that what it named is known to run. So it fails, and renews nothing, when rows cannot be read or
// written.
func (s *Service) Heartbeat(ctx context.Context, r *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.end()
	worker := r.GetWorker()
	if n := len(r.GetRunning()); n > HeldMax {
		return nil, invalid("running %d attempts: want at most %d", n, HeldMax)
	}
	sess, err := s.session(ctx, worker)
	if err != nil {
		return nil, err
	}
	if err := s.stillExecutes(ctx, sess); err != nil {
		return nil, err
	}
	named := attemptsOf(r.GetRunning())
	response := &kinesinv1.HeartbeatResponse{}
	if err := s.review(ctx, sess, named, response); err != nil {
		return nil, s.unavailable(ctx, "review running attempts", err)
	}
	l, err := s.Leases.Renew(ctx, worker)
	if err != nil {
		if errors.Is(err, lease.ErrLost) {
			s.removeSession(worker, leaseLost(worker))
		}
		return nil, s.leaseProblem(ctx, worker, err)
	}
	s.sessionOf(&l)
	if sess.wasNotified(&l) {
		response = &kinesinv1.HeartbeatResponse{} // a full review names all again
		if err := s.review(ctx, sess, named, response); err != nil {
			return nil, s.unavailable(ctx, "review running attempts", err)
		}
	}
	response.Now = int64(s.Clock.Now())
	return response, nil
}

// review compares the attempts that a worker names with their rows, as far as those are not known. It
// confirms an attempt that owns its task, tells one that does not to stop, and drops one that the worker
// should run and does not name when its row says so.
func (s *Service) review(ctx context.Context, sess *session, running []attempt, response *kinesinv1.HeartbeatResponse) error {
	now := s.Clock.Now()
	unknown := sess.unknown(running, now)
	all := slices.Concat(unknown, sess.missing(running, now))
	ids := idsOf(all)
	suspect := sess.runningSuspect(clock.Steady(s.Clock))
	if !suspect.IsZero() {
		ids = append(ids, suspect)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.taskRows(ctx, ids)
	if err != nil {
		sess.invalidateAll()
		return err
	}
	var gone, known []attempt
	var starts []report
	for i, a := range all {
		row := &rows[i]
		switch {
		case !owns(sess.worker, a, row):
			gone = append(gone, a)
			response.Fenced = append(response.Fenced, wireHeld(a))
		case row.CancelRequested:
			response.Cancels = append(response.Cancels, wireHeld(a))
		case row.State == task.Processing:
			known = append(known, a)
		}
		if i < len(unknown) && row.State == task.Claimed && claimedBefore(row, now, confirmAfter) {
			starts = append(starts, report{attempt: a, row: row, event: task.Event{Kind: task.Start}})
		}
	}
	if !suspect.IsZero() && !runs(sess.worker, &rows[len(rows)-1]) {
		s.suspectDone(sess, suspect)
	}
	sess.unassign(gone)
	s.record(ctx, sess, starts)
	for i := range starts {
		if starts[i].isUnavailable() {
			sess.invalidateAll()
			return errBusy
		}
		if starts[i].stored && !starts[i].next.CancelRequested {
			known = append(known, starts[i].attempt)
		}
	}
	sess.noteRunning(known)
	return nil
}

// unknown returns the named attempts whose rows are to be read, and forgets those that are not named any
// more. A task that was sent from here a moment ago has time.
func (s *session) unknown(named []attempt, now task.Instant) []attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now >= s.reviewAt || s.reviewAt > now.Add(reviewEvery) {
		s.reviewAt = now.Add(reviewEvery)
		clear(s.running)
		return slices.Clone(named)
	}
	if len(s.running) > len(named) {
		numbers := make(map[task.ID]uint32, len(named))
		for _, a := range named {
			numbers[a.id] = a.number
		}
		maps.DeleteFunc(s.running, func(id task.ID, number uint32) bool { return numbers[id] != number })
	}
	var unknown []attempt
	for _, a := range named {
		number, known := s.running[a.id]
		had := s.find(a)
		young := had != nil && !claimedBefore(had.row, now, confirmAfter)
		if !young && (!known || number != a.number) {
			unknown = append(unknown, a)
		}
	}
	return unknown
}
