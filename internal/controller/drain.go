package controller

import (
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// drain stops in the direction the work flows: no new tasks; what has not started goes back; handlers may go
// on for the grace; then they are told to stop; those that do not are given up; and the results are
// acknowledged. clean is false when some were not, ok when the lease was lost on the way.
func (s *session) drain() (abandoned int, clean, ok bool) {
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelInfo, "worker draining", slog.String("worker", s.worker), slog.Int("running", s.stopStarting()))
	if s.awaitRunning(s.cfg.Grace, s.gone) > 0 && s.holds() {
		s.stopRunning()
		s.awaitRunning(s.cfg.KillAfter, s.gone)
	}
	if !s.holds() {
		return 0, false, false
	}
	if abandoned = s.abandon(); abandoned > 0 {
		s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelError, "handlers do not return, their tasks are given back and the process must end",
			slog.String("worker", s.worker), slog.Int("running", abandoned))
	}
	if clean = s.await(min(flushWithinMax, s.length), s.gone, s.allAcknowledged); !clean {
		s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelWarn, "worker stopping with results that were not acknowledged", slog.String("worker", s.worker))
	}
	return abandoned, clean, abandoned > 0 || s.holds()
}

// allAcknowledged reports whether nothing that matters is in hand. Call with mu held.
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
	for _, g := range s.groups {
		g.waiting = nil
	}
	for _, a := range s.inOrder() {
		if a.state == held || a.state == waiting {
			s.timeline.remove(a)
			s.unrunnable(a)
		}
	}
	poke(s.outWake)
	return s.running
}

// stopRunning tells the handlers to stop.
func (s *session) stopRunning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.inOrder() {
		a.stop(ErrDraining)
	}
}

// abandonedDelay is how long the tasks of handlers that do not return stay away from other workers: meanwhile
// this process ends, and they with it.
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
		released := &attempt{key: a.key, work: a.work, due: a.due, group: a.group, startedAt: a.startedAt, place: -1}
		released.end(Outcome{Kind: task.OutcomeSnoozed, Delay: abandonedDelay, Error: "the handler did not stop when the worker did"})
		s.attempts[a.key] = released
		s.report(released)
	}
	return s.running
}

// leave ends the lease, so that nobody waits for it to run out. While a result is not acknowledged the lease
// says that its task is not to start elsewhere: then it is left to run out.
func (s *session) leave() {
	ctx, cancel := clock.Within(s.values, s.cfg.Clock, leaveWithin)
	defer cancel()
	if _, err := s.cfg.Backend.Leave(ctx, &kinesinv1.LeaveRequest{Worker: s.worker}); err != nil {
		s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelWarn, "leave failed, the lease runs out by itself", slog.String("worker", s.worker), slog.Any("error", err))
		return
	}
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelInfo, "worker left", slog.String("worker", s.worker))
}
