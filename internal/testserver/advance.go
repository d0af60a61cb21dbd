package testserver

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// lookEvery is how often an advance looks whether a worker has come back or something has stalled.
	lookEvery = 50 * time.Millisecond
	// sweepRowsMax bounds one deletion.
	sweepRowsMax = 1000
	// describeMax bounds the tasks that an error names.
	describeMax = 10
)

// advance moves time to an instant, from one due time to the next, and returns when all that is due has ended,
// except what no worker takes and what the server holds. Time that is in the past does not move.
func (s *Server) advance(ctx context.Context, to task.Instant) error {
	select {
	case s.advancing <- struct{}{}:
		defer func() { <-s.advancing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	look := clock.Real().NewTimer(lookEvery)
	defer look.Stop()
	last, seen := clock.Real().Now(), uint64(0)
	for {
		state, progress, err := s.step(to)
		if err != nil {
			return err
		}
		switch state {
		case arrived:
			return s.sweep(ctx)
		case moved:
			last = clock.Real().Now()
			continue
		case busy:
		}
		if progress != seen {
			last, seen = clock.Real().Now(), progress
		}
		if quiet := clock.Real().Now().Sub(last); quiet >= s.stall {
			return s.stalled()
		}
		look.Reset(lookEvery)
		select {
		case <-s.tracker.Events:
		case <-look.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// state is how an advance stands.
type state int

const (
	busy    state = iota // something that is due has not ended
	moved                // time has moved
	arrived              // all that is due has ended, and time need not move
)

// step moves time to the next due time, to at most, unless something that is due has not ended.
func (s *Server) step(to task.Instant) (st state, progress uint64, err error) {
	s.tracker.Lock()
	defer s.tracker.Unlock()
	now, progress := s.time.Now(), s.tracker.Progress()
	if err := s.workers.spinning(); err != nil {
		return busy, progress, err
	}
	if claimed, processing, _ := s.tracker.Running(); claimed+processing > 0 || s.workers.mayTake() || !s.tracker.Rests(now) {
		return busy, progress, nil
	}
	if now >= to {
		return arrived, progress, nil
	}
	next, found := s.tracker.Next(now)
	if !found || next > to {
		next = to
	}
	s.workers.moved()
	s.time.Jump(next)
	return moved, progress, nil
}

func (s *Server) stalled() error {
	s.tracker.Lock()
	defer s.tracker.Unlock()
	now := s.time.Now()
	return fmt.Errorf("nothing has happened for %v of real time, but this is due at %s and has not ended:\n\t%s\nTime stands while an attempt runs: a handler must not wait for time to pass, and a worker that was killed cannot give its tasks back",
		s.stall, now.Time().Format(time.RFC3339Nano), strings.Join(s.tracker.Overdue(now, describeMax), "\n\t"))
}

// sweep deletes ended tasks whose retention is over. The server does that too, but not at a known time.
func (s *Server) sweep(ctx context.Context) error {
	for {
		n, err := s.store.Sweep(ctx, s.time.Now(), sweepRowsMax)
		if err != nil || n < sweepRowsMax {
			return err
		}
	}
}
