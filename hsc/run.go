package hsc

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// silenceNotedFor is how long after the start silence is noted: until the longest lease has run out.
	silenceNotedFor    = lease.LengthMax + task.ClockBound
	sessionsSweepEvery = 10 * time.Second
	leasesSweepEvery   = 10 * time.Minute
)

// Run does the background work until ctx ends: it follows changes of the lambdas, does the work list, and
// forgets workers that are gone. Then it ends all streams with "unavailable", so that workers connect to
// another server, and returns when every call has returned.
func (s *Service) Run(ctx context.Context) error {
	sessions, leases := s.Clock.NewTimer(sessionsSweepEvery), s.Clock.NewTimer(leasesSweepEvery)
	work := s.Clock.NewTimer(workRetry.Max)
	defer sessions.Stop()
	defer leases.Stop()
	defer work.Stop()
	silence, listened := s.Clock.NewTimer(lease.SilenceNotedFirst), lease.SilenceNotedFirst
	defer silence.Stop()
	s.noteSilence(ctx) // sees which heartbeats are known
	changed := s.Catalog.Changed()
	s.pollAgain() // streams that were opened before may have missed a change
	for {
		if wait, pending := s.work.wait(); pending {
			work.Reset(wait)
		} else {
			work.Stop()
		}
		select {
		case <-s.work.added:
		case <-work.C():
			s.doWork(ctx)
		case <-changed:
			changed = s.Catalog.Changed()
			s.pollAgain()
		case <-sessions.C():
			s.sweepSessions()
			s.pollAgain()
			sessions.Reset(sessionsSweepEvery)
		case <-leases.C():
			s.sweepLeases(ctx)
			leases.Reset(leasesSweepEvery)
		case <-silence.C():
			s.noteSilence(ctx)
			if listened < silenceNotedFor {
				silence.Reset(listened)
				listened *= 2
			}
		case <-ctx.Done():
			s.mu.Lock()
			s.shutDown()
			s.mu.Unlock()
			s.calls.Wait()
			return nil
		}
	}
}

func (s *Service) noteSilence(ctx context.Context) {
	if err := s.Leases.NoteSilence(ctx); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "noting the silence of workers failed", slog.Any("error", err))
	}
}

func (s *Service) sweepLeases(ctx context.Context) {
	if _, err := s.Leases.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "sweep of worker leases failed", slog.Any("error", err))
	}
}
