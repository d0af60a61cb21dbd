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

// beat sends heartbeats until ctx ends or the lease is lost. The first comes at once: it
// also tells the offset of the server's clock.
func (s *session) beat(ctx context.Context) {
	timer := s.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-s.beatNow:
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
		s.beatOnce(ctx, sent)
		timer.Reset(max(0, s.beatEvery-(clock.Mono(s.cfg.Clock)-sent.Mono)))
	}
}

func (s *session) beatOnce(ctx context.Context, sent clock.Readings) {
	call, cancel := clock.Within(ctx, s.cfg.Clock, s.beatEvery)
	response, err := s.cfg.Backend.Heartbeat(call, &kinesinv1.HeartbeatRequest{Worker: s.worker, Running: s.inHand()})
	cancel()
	switch {
	case err == nil:
		s.beaten(response, sent)
		s.tellHeld(sent)
	case ctx.Err() != nil:
	case errors.Is(err, api.ErrLeaseLost):
		s.lose("the server says so")
	default:
		s.missed(err)
	}
}

// tellHeld says how long the lease holds by what was accepted of what was sent then.
func (s *session) tellHeld(sent clock.Readings) {
	if left := s.valid - clock.Read(s.cfg.Clock).Since(sent); left > 0 {
		s.cfg.Hooks.leaseHeld(s.worker, left)
	}
}

func (s *session) missed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.misses++
	if s.doubted {
		s.loseLocked(fmt.Sprintf("the wall clock says so, and the heartbeat that was to confirm it failed: %v", err))
		return
	}
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelWarn, "heartbeat failed",
		slog.String("worker", s.worker), slog.Int("misses", s.misses), slog.Any("error", err))
	if s.misses >= missesMax {
		s.loseLocked(fmt.Sprintf("%d heartbeats in a row failed, the last with: %v", s.misses, err))
	}
}

// inHand names the attempts that run or are about to, and results that no stream carries yet.
func (s *session) inHand() []*kinesinv1.Held {
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

// beaten handles the answer to a heartbeat. That it came is worth only what is left
// of the lease since the heartbeat was sent.
func (s *session) beaten(r *kinesinv1.HeartbeatResponse, sent clock.Readings) {
	now := clock.Read(s.cfg.Clock)
	s.learnOffset(r.NowMicros, sent, now)
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
	s.confirmedLocked(now)
	for _, h := range r.Cancels {
		s.cancelLocked(h)
	}
	for _, h := range r.Fenced {
		s.fenceLocked(h)
	}
}

// learnOffset estimates the offset of the server's clock from the middle of a call. What the call's
// own length could explain is no offset.
func (s *session) learnOffset(serverMicros int64, sent, now clock.Readings) {
	if serverMicros == 0 {
		return
	}
	half := (now.Mono - sent.Mono) / 2
	offset := task.Instant(serverMicros).Sub(now.Wall.Add(-half))
	if offset.Abs() <= half+time.Millisecond {
		offset = 0
	}
	s.zero.Store(int64(now.Wall.Add(offset - now.Mono)))
}

// cancelLocked stops an attempt whose task somebody cancelled.
func (s *session) cancelLocked(h *kinesinv1.Held) {
	k, _ := keyOf(h.Task, h.Attempt)
	a := s.attempts[k]
	if a == nil {
		return
	}
	switch a.state {
	case running:
		a.stop(ErrCancelled)
	case held, waiting:
		s.timeline.remove(a)
		a.group.dismiss(a)
		a.end(Outcome{Kind: task.OutcomeCancelled})
		s.report(a)
	case ended:
	}
}

// fenceLocked stops an attempt that no longer owns its task; nobody wants its result.
func (s *session) fenceLocked(h *kinesinv1.Held) {
	k, _ := keyOf(h.Task, h.Attempt)
	a := s.attempts[k]
	if a == nil || a.dropped || a.state == ended && a.sent {
		return
	}
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelWarn, "attempt stopped, another one owns the task",
		slog.String("task_id", a.work.ID), slog.Int("attempt", a.work.Attempt))
	s.fencedOff = append(s.fencedOff, a)
	if a.state == running {
		a.dropped = true
		a.stop(ErrFenced)
		return
	}
	s.timeline.remove(a)
	a.group.dismiss(a)
	s.unsend(a)
	s.forget(a)
	s.settled()
}

// dismiss takes an attempt out of those that wait for a slot.
func (g *group) dismiss(a *attempt) {
	if a.state != waiting {
		return
	}
	for i, w := range g.waiting {
		if w == a {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			return
		}
	}
}

// unsend takes a result out of the outbox.
func (s *session) unsend(a *attempt) {
	for i, r := range s.outbox.results {
		if r == a {
			s.outbox.results = append(s.outbox.results[:i:i], s.outbox.results[i+1:]...)
			return
		}
	}
}

// callFenced calls the hook for what was fenced off, without the lock.
func (s *session) callFenced() {
	s.mu.Lock()
	fenced := s.fencedOff
	s.fencedOff = nil
	s.mu.Unlock()
	for _, a := range fenced {
		s.cfg.Hooks.fenced(&a.work)
	}
}
