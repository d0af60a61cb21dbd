package hsc

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// RecoverClaim takes a claimed row that was in the store when its partition came to this process. An earlier
// process may have ended before it sent the task. So if the worker opens a stream without it, the task goes
// back to its queue at once instead of at its wake-up. RecoverClaim does no I/O.
func (s *Service) RecoverClaim(t *task.Task) {
	if t.State != task.Claimed || t.ClaimedAt >= s.work.started.Wall || s.work.clockStepped() {
		return
	}
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	if rows := s.work.claims[t.Worker]; len(rows) < HeldMax {
		s.work.claims[t.Worker] = append(rows, *t)
	}
	s.work.begin(0)
}

// CancelRequested sees to it that the worker that runs the task learns of the cancel: at once if its stream
// is here, else with its next heartbeat. It does no I/O.
func (s *Service) CancelRequested(t task.Task) {
	if sess := s.lookUp(t.Worker); sess != nil {
		sess.invalidate(t.ID)
		if st := sess.current(); st != nil {
			st.sendCancel(attemptOf(&t))
			return
		}
	}
	s.attend(t.Worker)
}

// Reported sees to it that a worker learns, with its next heartbeat, that somebody else has reported how an attempt
// of it ended. If its stream is here, whoever took the report tells it. It does no I/O.
func (s *Service) Reported(worker string) {
	if sess := s.lookUp(worker); sess == nil || sess.current() == nil {
		s.attend(worker)
	}
}

// attend has the next heartbeat of a worker read the rows of all its attempts.
func (s *Service) attend(worker string) {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	s.work.addNotice(worker, notice{until: clock.Steady(s.Clock).Add(reviewEvery)})
	s.work.begin(0)
}

// doWork does one round. Whatever fails is kept for the next one.
func (s *Service) doWork(ctx context.Context) {
	w := &s.work
	w.mu.Lock()
	messages, notices, recovered := w.messages, w.notices, len(w.claims) > 0
	w.messages, w.notices, w.pending = nil, map[string]notice{}, false
	w.mu.Unlock()
	if recovered {
		for _, sess := range s.all() {
			if sess.saidWhatItHolds() {
				s.release(ctx, sess, s.unheldClaims(sess))
			}
		}
	}
	unsent := s.send(ctx, messages)
	unnotified := s.notify(ctx, notices)

	w.mu.Lock()
	defer w.mu.Unlock()
	if len(unsent) == 0 && len(unnotified) == 0 {
		w.failures = 0
		return
	}
	w.failures++
	w.messages = append(unsent, w.messages...)
	w.messages = w.messages[:min(len(w.messages), messagesMax)]
	for worker, n := range unnotified {
		w.addNotice(worker, n)
	}
	w.begin(workRetry.Pause(w.clock, w.failures))
}
