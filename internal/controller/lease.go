package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// How the process counts its lease.
const (
	missesMax = 3 // heartbeats in a row

	// The lease is given up this long before its end, so that handlers have it to obey.
	killMarginMax   = 2 * time.Second
	killMarginShare = 5 // of the lease at most one part in this many

	driftShare = 1000 // clocks may run apart by one part in this many

	// watchShare is how often in a lease the three clocks are compared while handlers run, because the
	// monotonic timer sleeps through a suspension.
	watchShare = 75

	lostByServer = "the server says so"
)

// errLostIdle ends a session whose lease was lost while no handler ran.
var errLostIdle = errors.New("lease lost while idle")

func killMargin(lease time.Duration) time.Duration {
	return min(killMarginMax, lease/killMarginShare)
}

// validity returns how long after the sending of an accepted heartbeat the process may act.
func validity(lease time.Duration) time.Duration {
	d := lease - killMargin(lease)
	return d - d/driftShare
}

// holds reports whether the process holds its lease at this moment. If not, all handlers have been told to
// stop when it returns. Everything that starts a task or sends a result calls it first: so a process that was
// stopped and goes on finds out, whichever of its goroutines wakes up first.
func (s *session) holds() bool {
	now := clock.Read(s.cfg.Clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holdsLocked(now)
}

func (s *session) holdsLocked(now clock.Readings) bool {
	if s.lost {
		return false
	}
	if age := now.Since(s.renewed); age >= s.valid {
		s.loseLocked(fmt.Sprintf("no heartbeat was accepted for %v", age.Round(time.Millisecond)))
		return false
	}
	if ahead := now.Wall.Sub(s.renewed.Wall); ahead >= s.valid && !s.unconfirmed {
		s.requireConfirmation(ahead - now.Since(s.renewed))
	}
	return true
}

// requireConfirmation handles a lease that has ended by the wall clock alone. Either that clock was set
// forward, or the host stopped this machine for a while, which none of its other clocks shows. Only the
// server knows: a heartbeat goes at once, and until it is accepted nothing starts. Call with mu held.
func (s *session) requireConfirmation(by time.Duration) {
	s.unconfirmed = true
	s.log(slog.LevelWarn, "wall clock went ahead; starting nothing until a heartbeat confirms the lease",
		slog.Duration("by", by.Round(time.Millisecond)), slog.Int("running", s.running))
	wake(s.heartbeatNow)
}

// lose gives the lease up for a reason.
func (s *session) lose(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseLocked(why)
}

// loseLocked stops the handlers first, and reports nothing more, because the tasks may belong to others. It
// keeps the results of attempts that do not run, for the next registration.
func (s *session) loseLocked(why string) {
	if s.lost {
		return
	}
	s.lost, s.lostWhy, s.lostRunning = true, why, s.running
	for _, a := range s.attempts {
		if a.state == running {
			a.ctx.end(ErrLeaseLost)
		}
	}
	s.keepResults()
	s.outbox = outbox{}
	s.timeline.Clear()
	for _, g := range s.groups {
		g.waiting = nil
	}
	close(s.gone)
}

// afterLoss waits for the handlers to obey, and ends the process if they do not.
func (s *session) afterLoss() error {
	s.mu.Lock()
	why, ran := s.lostWhy, s.lostRunning
	s.mu.Unlock()
	if ran == 0 {
		return errLostIdle
	}
	s.log(slog.LevelError, "lease lost while handlers ran; stopping them", slog.String("reason", why), slog.Int("running", ran))
	s.cfg.Hooks.LeaseLost(ran)
	if left := s.awaitRunning(killMargin(s.length), nil); left > 0 {
		s.log(slog.LevelError, "handlers go on without a lease; the process must end", slog.Int("running", left))
		if s.cfg.Exit != nil {
			s.cfg.Exit(1)
		}
		return fmt.Errorf("%w (%s), and %d of %d handlers go on: end the process", ErrLeaseLost, why, left, ran)
	}
	return fmt.Errorf("%w (%s) while %d handlers ran", ErrLeaseLost, why, ran)
}
