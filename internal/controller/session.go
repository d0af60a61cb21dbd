package controller

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
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

// session is one lease of this process, from Register to Leave or loss.
type session struct {
	cfg *Config
	ctx context.Context //nolint:containedctx // has the values for handlers and the log; it never ends

	worker         string
	proof          []byte        // of who holds the lease; empty: the server wants none
	length         time.Duration // of the lease
	valid          time.Duration // how long after a heartbeat's sending the process may act
	heartbeatEvery time.Duration
	steps          *clock.Steps // of the wall clock, logged with each heartbeat
	groups         []*group
	byLambda       map[string]*group
	flushAt        int // reports that are sent without waiting for more

	serverZero atomic.Int64 // task.Instant that the server's clock showed when our monotonic clock showed zero

	gone         chan struct{} // closed when the lease is lost
	progress     chan struct{} // holds one value when a drain or a loss has come further
	outboxReady  chan struct{} // holds one value when the writer must look at the outbox
	timerChanged chan struct{} // holds one value when the timer loop sleeps too long
	heartbeatNow chan struct{} // holds one value when a heartbeat is to be sent at once

	mu        sync.Mutex // guards what follows and the attempts; never held across a call
	attempts  map[key]*attempt
	running   int
	busy      bool // a handler was started since the timer loop last woke
	timeline  timeline
	wakesAt   time.Duration // monotonic; when the timer loop wakes up
	outbox    outbox
	fencedOff []*attempt // for the hook, to be called without the lock
	draining  bool

	renewed     clock.Readings // when the last accepted heartbeat was sent
	misses      int            // heartbeats in a row that failed
	unconfirmed bool           // by the wall clock alone the lease has ended: nothing starts until a heartbeat confirms it
	lost        bool
	lostWhy     string
	lostRunning int
	kept        []*attempt // with results, which the next registration sends
}

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

// group is a pool of slots.
type group struct {
	slots int

	// Guarded by session.mu.
	running int
	waiting []*attempt // for a slot: while attempts are short the server sends more than there are slots
}
