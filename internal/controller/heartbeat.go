package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// sendHeartbeats renews the lease until ctx ends or the lease is lost. The first heartbeat goes at once,
// because its answer also tells the offset of the server's clock.
func (s *session) sendHeartbeats(ctx context.Context) {
	timer := s.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-s.heartbeatNow:
		case <-s.gone:
			return
		case <-ctx.Done():
			return
		}
		s.steps.Look()
		sent := clock.Read(s.cfg.Clock)
		if !s.holds() {
			return
		}
		s.heartbeat(ctx, sent)
		s.watchResults()
		timer.Reset(max(0, s.heartbeatEvery-(clock.Mono(s.cfg.Clock)-sent.Mono)))
	}
}

func (s *session) heartbeat(ctx context.Context, sent clock.Readings) {
	call, cancel := clock.Within(ctx, s.cfg.Clock, s.heartbeatEvery)
	response, err := s.cfg.Backend.Heartbeat(call, &kinesinv1.HeartbeatRequest{Worker: s.worker, Running: s.inFlight()})
	cancel()
	switch {
	case err == nil:
		s.heartbeatAccepted(response, sent)
		s.reportLease(sent)
	case ctx.Err() != nil:
	case errors.Is(err, api.ErrLeaseLost):
		s.lose(lostByServer)
	default:
		s.heartbeatFailed(err)
	}
}

// reportLease tells the hook how long the lease holds by a heartbeat that was accepted and sent then.
func (s *session) reportLease(sent clock.Readings) {
	if left := s.valid - clock.Read(s.cfg.Clock).Since(sent); left > 0 {
		s.cfg.Hooks.LeaseHeld(s.worker, left)
	}
}

func (s *session) heartbeatFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.misses++
	if s.unconfirmed {
		s.loseLocked(fmt.Sprintf("by the wall clock it has ended, and the heartbeat that was to confirm it failed: %v", err))
		return
	}
	s.log(slog.LevelWarn, "heartbeat failed", slog.Int("misses", s.misses), slog.Any("error", err))
	if s.misses >= missesMax {
		s.loseLocked(fmt.Sprintf("%d heartbeats in a row failed, the last with: %v", s.misses, err))
	}
}

// inFlight names the attempts that run or are about to, and the results that no stream carries yet.
func (s *session) inFlight() []*kinesinv1.Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*kinesinv1.Held
	for _, a := range s.inOrder() {
		if !a.dropped && (a.state != ended || !a.sent) {
			all = append(all, a.key.held())
		}
	}
	return all
}

// heartbeatAccepted handles the answer to a heartbeat. The lease counts from when the heartbeat was sent.
func (s *session) heartbeatAccepted(r *kinesinv1.HeartbeatResponse, sent clock.Readings) {
	now := clock.Read(s.cfg.Clock)
	s.learnOffset(r.Now, sent, now)
	s.mu.Lock()
	defer s.callFenced()
	defer s.mu.Unlock()
	s.misses = 0
	if !s.lost {
		s.renewed = sent
	}
	if !s.holdsLocked(now) {
		return
	}
	s.confirmLocked(now)
	for _, h := range r.Cancels {
		s.cancelLocked(h)
	}
	for _, h := range r.Fenced {
		s.fenceLocked(h)
	}
}

// learnOffset estimates the offset of the server's clock from the middle of a call. An offset that the length
// of the call could explain counts as none.
func (s *session) learnOffset(serverMicros int64, sent, now clock.Readings) {
	if serverMicros == 0 {
		return
	}
	half := (now.Mono - sent.Mono) / 2
	offset := task.Instant(serverMicros).Sub(now.Wall.Add(-half))
	if offset.Abs() <= half+time.Millisecond {
		offset = 0
	}
	s.serverZero.Store(int64(now.Wall.Add(offset - now.Mono)))
}

// confirmLocked confirms the lease, if the accepted heartbeat was sent late enough, and starts the attempts
// that waited for that.
func (s *session) confirmLocked(now clock.Readings) {
	if !s.unconfirmed {
		return
	}
	if now.Wall.Sub(s.renewed.Wall) >= s.valid {
		wake(s.heartbeatNow)
		return
	}
	s.unconfirmed = false
	s.log(slog.LevelInfo, "lease confirmed")
	for _, g := range s.groups {
		for a := s.nextWaiting(g, now); a != nil; a = s.nextWaiting(g, now) {
			go s.execute(a)
		}
	}
}

// cancelLocked stops an attempt whose task was cancelled.
func (s *session) cancelLocked(h *kinesinv1.Held) {
	k, _ := keyOf(h.Task, h.Attempt)
	a := s.attempts[k]
	if a == nil {
		return
	}
	switch a.state {
	case running:
		a.ctx.end(ErrCancelled)
	case early, waiting:
		s.withdraw(a)
		a.end(Outcome{Kind: task.OutcomeCancelled})
		s.report(a)
	case ended:
	}
}

// fenceLocked stops an attempt that no longer owns its task, and drops its result.
func (s *session) fenceLocked(h *kinesinv1.Held) {
	k, _ := keyOf(h.Task, h.Attempt)
	a := s.attempts[k]
	if a == nil || a.dropped || a.state == ended && a.sent {
		return
	}
	s.log(slog.LevelWarn, "attempt fenced: it has its task no longer",
		slog.String("task_id", a.work.Id), slog.Int("attempt", int(a.work.Attempt)))
	s.fencedOff = append(s.fencedOff, a)
	if a.state == running {
		a.dropped = true
		a.ctx.end(ErrFenced)
		return
	}
	s.withdraw(a)
	s.outbox.results = without(s.outbox.results, a)
	s.forget(a)
	s.noteProgress()
}
