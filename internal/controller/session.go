package controller

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	outageLong         = time.Minute // after which outageRetry applies
	logEveryNth        = 20          // failure to reach the server in a row
	heartbeatsPerLease = 4
	leaveWithin        = 2 * time.Second
	flushWithinMax     = 5 * time.Second // for the last acks when draining
)

// Pauses between the calls of a server that does not answer. The short ones let work go on within a second
// after a restart.
var (
	serverRetry = backoff.Policy{Min: 50 * time.Millisecond, Max: 500 * time.Millisecond}
	outageRetry = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	// lambdaRetry is for a worker whose lambda does not exist yet: each try costs the server a read.
	lambdaRetry = backoff.Policy{Min: 250 * time.Millisecond, Max: 5 * time.Second}
)

// log logs an event of the session.
func (s *session) log(level slog.Level, msg string, attrs ...slog.Attr) {
	s.cfg.Logger.LogAttrs(s.ctx, level, msg, //nolint:sloglint // its callers pass constants
		append(attrs, slog.String("worker", s.worker))...)
}

// inOrder returns the attempts in an order that does not depend on chance. Call with mu held.
func (s *session) inOrder() []*attempt {
	all := make([]*attempt, 0, len(s.attempts))
	for _, a := range s.attempts {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b *attempt) int {
		return cmp.Or(slices.Compare(a.key.task[:], b.key.task[:]), cmp.Compare(a.key.attempt, b.key.attempt))
	})
	return all
}

// forget drops an attempt. Call with mu held.
func (s *session) forget(a *attempt) {
	if s.attempts[a.key] == a {
		delete(s.attempts, a.key)
	}
}

// serverNow returns the time by the server's clock, as this process knows it.
func (s *session) serverNow() task.Instant {
	return task.Instant(s.serverZero.Load()).Add(clock.Mono(s.cfg.Clock))
}

// noteProgress wakes a drain or a loss that waits for attempts to end. Call with mu held.
func (s *session) noteProgress() {
	if s.draining || s.lost {
		wake(s.progress)
	}
}

// await waits until done, or gone is closed, or d has passed, and reports whether done.
func (s *session) await(d time.Duration, gone <-chan struct{}, done func() bool) bool {
	timer := s.cfg.Clock.NewTimer(d)
	defer timer.Stop()
	for {
		s.mu.Lock()
		is := done()
		s.mu.Unlock()
		if is {
			return true
		}
		select {
		case <-s.progress:
		case <-timer.C():
			return false
		case <-gone:
			return false
		}
	}
}

// awaitRunning waits until no handler runs, d at most, and returns how many still do.
func (s *session) awaitRunning(d time.Duration, gone <-chan struct{}) int {
	s.await(d, gone, func() bool { return s.running == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// callFenced calls the hook for fenced attempts, without the lock.
func (s *session) callFenced() {
	s.mu.Lock()
	fenced := s.fencedOff
	s.fencedOff = nil
	s.mu.Unlock()
	for _, a := range fenced {
		s.cfg.Hooks.Fenced(a.work)
	}
}

// wake leaves a value in a channel of capacity one, for a loop that waits on it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
