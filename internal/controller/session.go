package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
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

// registrationRefusals are those that no repetition changes.
var registrationRefusals = []error{api.ErrInvalid, api.ErrUnsupported, api.ErrUnauthenticated, api.ErrPermissionDenied}

// register opens a lease, and gives up the one of the lost session, which may be nil. It tries until a server
// answers and one of the lambdas exists; it returns nil and no error when ctx ends.
func (c *Controller) register(ctx context.Context, lost *session) (*session, error) {
	request := &kinesinv1.RegisterRequest{
		Name: c.cfg.Name, Version: c.cfg.Version, LeaseMicros: c.cfg.Lease.Microseconds(), Groups: wireGroups(c.cfg.Groups), Previous: lost.previous(),
	}
	var tries registerTries
	for ctx.Err() == nil {
		sent := clock.Read(c.cfg.Clock)
		response, err := c.cfg.Backend.Register(ctx, request)
		if err == nil {
			lost.concludeKept(response.Acks)
			if len(response.Missing) > 0 {
				c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "lambdas of this worker do not exist yet; it runs tasks of the others, and theirs when they are created",
					slog.Any("lambdas", response.Missing))
			}
			return c.newSession(ctx, response, sent), nil
		}
		if slices.ContainsFunc(registrationRefusals, func(final error) bool { return errors.Is(err, final) }) {
			return nil, fmt.Errorf("register worker: %w", err)
		}
		c.pauseBeforeTry(ctx, &tries, err)
	}
	return nil, nil //nolint:nilnil // asked to stop before there was anything
}

// registerTries counts the tries of a registration by how they ended.
type registerTries struct{ failures, lambdaUnknown int }

// pauseBeforeTry logs why a try to register failed, but not each time, and waits before the next one.
func (c *Controller) pauseBeforeTry(ctx context.Context, tries *registerTries, err error) {
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, api.ErrUnknownLambda) {
		if tries.lambdaUnknown++; tries.lambdaUnknown == 1 {
			c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "a lambda of this worker does not exist yet; waiting until it is created", slog.Any("error", err))
		}
		_ = lambdaRetry.Sleep(ctx, c.cfg.Clock, tries.lambdaUnknown) // the caller looks at ctx
		return
	}
	if tries.failures++; tries.failures%logEveryNth == 1 {
		c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "register failed; trying again", slog.Int("failures", tries.failures), slog.Any("error", err))
	}
	_ = serverRetry.Sleep(ctx, c.cfg.Clock, tries.failures) // the caller looks at ctx
}

func wireGroups(groups []Group) []*kinesinv1.SlotGroup {
	wire := make([]*kinesinv1.SlotGroup, len(groups))
	for i, g := range groups {
		wire[i] = &kinesinv1.SlotGroup{Lambdas: g.Lambdas, Slots: uint32(g.Slots)}
	}
	return wire
}

func (c *Controller) newSession(ctx context.Context, r *kinesinv1.RegisterResponse, sent clock.Readings) *session {
	length := cmp.Or(task.Micros(r.LeaseMicros), c.cfg.Lease)
	s := &session{
		cfg: &c.cfg, ctx: context.WithoutCancel(ctx),
		worker: r.Worker, proof: r.Proof, length: length, valid: validity(length),
		heartbeatEvery: cmp.Or(task.Micros(r.HeartbeatMicros), length/heartbeatsPerLease),
		byLambda:       map[string]*group{},
		gone:           make(chan struct{}), progress: make(chan struct{}, 1), outboxReady: make(chan struct{}, 1),
		timerChanged: make(chan struct{}, 1), heartbeatNow: make(chan struct{}, 1),
		attempts: map[key]*attempt{}, renewed: sent,
	}
	slots := 0
	for _, g := range c.cfg.Groups {
		pool := &group{slots: g.Slots}
		s.groups = append(s.groups, pool)
		slots += g.Slots
		for _, name := range g.Lambdas {
			s.byLambda[name] = pool
		}
	}
	s.flushAt = min(max(slots/flushSlotsShare, 1), flushMax)
	s.steps = clock.NewSteps(s.cfg.Clock, func(by time.Duration) {
		s.log(slog.LevelWarn, "wall clock stepped", slog.Duration("by", by.Round(time.Millisecond)))
	})
	s.serverZero.Store(int64(sent.Wall.Add(-sent.Mono)))
	return s
}

// run works under the lease until ctx ends or the lease is lost.
func (s *session) run(ctx context.Context) error {
	s.log(slog.LevelInfo, "worker registered", slog.Duration("lease", s.length))
	s.reportLease(s.renewed)
	live, stop := context.WithCancel(s.ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.runTimers(live) })
	loops.Go(func() { s.sendHeartbeats(live) })
	loops.Go(func() { s.keepStream(live) })
	finish := func() {
		stop()
		loops.Wait()
	}
	defer finish()

	select {
	case <-s.gone:
		stop()
		return s.afterLoss()
	case <-ctx.Done():
	}
	abandoned, clean, ok := s.drain()
	finish()
	if !ok {
		return s.afterLoss()
	}
	if clean {
		s.leave()
	}
	if abandoned > 0 {
		return fmt.Errorf("%w: %d of them still run %v after they were told to stop", ErrAbandoned, abandoned, s.cfg.KillAfter)
	}
	return nil
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
