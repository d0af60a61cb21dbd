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

	// watchShare: while handlers run, the three clocks are compared this often in a lease,
	// because the monotonic timer sleeps through a suspension.
	watchShare = 75
)

// errLostIdle ends a session whose lease was lost while no handler ran.
var errLostIdle = errors.New("lease lost while idle")

func killMargin(lease time.Duration) time.Duration {
	return min(killMarginMax, lease/killMarginShare)
}

// validity is how long after the sending of an accepted heartbeat the process may act.
func validity(lease time.Duration) time.Duration {
	d := lease - killMargin(lease)
	return d - d/driftShare
}

// holds reports whether the lease is good at this moment. If it is not, all handlers have been told to stop
// when it returns. Everything that starts a task or sends a result asks it first: a process that was stopped
// and goes on finds out here, whichever of its goroutines wakes up first.
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
	if ahead := now.Wall.Sub(s.renewed.Wall); ahead >= s.valid && !s.doubted {
		s.doubtLocked(ahead - now.Since(s.renewed))
	}
	return true
}

// doubtLocked is for a lease that is over by the wall clock alone. That was set forward, or the host stopped
// this machine for a while, which no other clock of it shows. Only the server knows: it is asked at once, and
// until it has answered nothing starts.
func (s *session) doubtLocked(by time.Duration) {
	s.doubted = true
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelWarn, "wall clock went ahead, nothing starts until a heartbeat confirms the lease",
		slog.String("worker", s.worker), slog.Duration("by", by.Round(time.Millisecond)), slog.Int("running", s.running))
	poke(s.beatNow)
}

// confirmedLocked ends the doubt, if the accepted heartbeat was sent after it came up, and starts what waited
// for that.
func (s *session) confirmedLocked(now clock.Readings) {
	if !s.doubted {
		return
	}
	if now.Wall.Sub(s.renewed.Wall) >= s.valid {
		poke(s.beatNow)
		return
	}
	s.doubted = false
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelInfo, "lease confirmed", slog.String("worker", s.worker))
	for _, g := range s.groups {
		for a := s.nextWaiting(g, now); a != nil; a = s.nextWaiting(g, now) {
			go s.execute(a)
		}
	}
}

// lose gives the lease up for a reason.
func (s *session) lose(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseLocked(why)
}

// loseLocked stops the handlers first, and reports nothing more: the tasks may belong to others. What came of
// attempts that do not run is kept, in case they do not.
func (s *session) loseLocked(why string) {
	if s.lost {
		return
	}
	s.lost, s.lostWhy, s.lostRunning = true, why, s.running
	for _, a := range s.attempts {
		if a.state == running {
			a.cancel(ErrLeaseLost)
		}
	}
	s.keepResults()
	s.outbox = outbox{}
	s.timeline.clear()
	for _, g := range s.groups {
		g.waiting = nil
	}
	close(s.gone)
}

// afterLoss waits for the handlers to obey, and ends the process if they do not.
func (s *session) afterLoss() error {
	s.mu.Lock()
	why, inHand := s.lostWhy, s.lostRunning
	s.mu.Unlock()
	if inHand == 0 {
		return errLostIdle
	}
	s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelError, "lease lost with tasks in hand, their handlers are told to stop",
		slog.String("worker", s.worker), slog.String("reason", why), slog.Int("running", inHand))
	s.cfg.Hooks.leaseLost(inHand)
	if left := s.awaitRunning(killMargin(s.length), nil); left > 0 {
		s.cfg.Logger.LogAttrs(s.logCtx, slog.LevelError, "handlers go on without a lease, the process must end",
			slog.String("worker", s.worker), slog.Int("running", left))
		if s.cfg.Exit != nil {
			s.cfg.Exit(1)
		}
		return fmt.Errorf("%w (%s), and %d of %d handlers go on: end the process", ErrLeaseLost, why, left, inHand)
	}
	return fmt.Errorf("%w (%s) with %d tasks in hand", ErrLeaseLost, why, inHand)
}
