package controller

import (
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// drain stops in the direction the work flows. It takes no new tasks and gives back those that have not
// started. It lets handlers go on for the grace, then tells them to stop, and abandons those that do not. It
// waits until the results are acknowledged. clean is false when some were not; ok is false when the lease was
// lost meanwhile.
func (s *session) drain() (abandoned int, clean, ok bool) {
	s.log(slog.LevelInfo, "worker draining", slog.Int("running", s.stopStarting()))
	if s.awaitRunning(s.cfg.Grace, s.gone) > 0 && s.holds() {
		s.stopRunning()
		s.awaitRunning(s.cfg.KillAfter, s.gone)
	}
	if !s.holds() {
		return 0, false, false
	}
	if abandoned = s.abandon(); abandoned > 0 {
		s.log(slog.LevelError, "handlers do not return; giving their tasks back, the process must end", slog.Int("running", abandoned))
	}
	if clean = s.await(min(flushWithinMax, s.length), s.gone, s.allAcknowledged); !clean {
		s.log(slog.LevelWarn, "worker stopping with results that were not acknowledged")
	}
	return abandoned, clean, abandoned > 0 || s.holds()
}

// allAcknowledged reports whether all results are acknowledged. Call with mu held.
func (s *session) allAcknowledged() bool {
	for _, a := range s.attempts {
		if !a.dropped {
			return false
		}
	}
	return true
}

// stopStarting gives back what has not started, and returns how many handlers run.
func (s *session) stopStarting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	s.outbox.drain = true
	for _, a := range s.inOrder() {
		if a.state == early || a.state == waiting {
			s.withdraw(a)
			s.reject(a)
		}
	}
	wake(s.outboxReady)
	return s.running
}

// stopRunning tells the handlers to stop.
func (s *session) stopRunning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.inOrder() {
		if a.state == running {
			a.ctx.end(ErrDraining)
		}
	}
}

// abandonedDelay is how long the tasks of abandoned handlers stay away from other workers: meanwhile this
// process ends, and the handlers with it.
const abandonedDelay = 500 * time.Millisecond

// abandon gives back the tasks of handlers that do not return, and returns how many they are.
func (s *session) abandon() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.inOrder() {
		if a.state != running || a.dropped {
			continue
		}
		a.dropped = true // whatever it returns comes too late
		released := &attempt{key: a.key, work: a.work, due: a.due, group: a.group, startedAt: a.startedAt}
		released.end(Outcome{Kind: task.OutcomeSnoozed, Delay: abandonedDelay, Error: "the handler did not stop when the worker did"})
		s.attempts[a.key] = released
		s.report(released)
	}
	return s.running
}

// leave ends the lease, so that nobody waits for it to run out. It is called only when all results are
// acknowledged: until then the lease keeps their tasks from starting elsewhere.
func (s *session) leave() {
	ctx, cancel := clock.Within(s.ctx, s.cfg.Clock, leaveWithin)
	defer cancel()
	if _, err := s.cfg.Backend.Leave(ctx, &kinesinv1.LeaveRequest{Worker: s.worker}); err != nil {
		s.log(slog.LevelWarn, "leave failed; the lease runs out by itself", slog.Any("error", err))
		return
	}
	s.log(slog.LevelInfo, "worker left")
}
