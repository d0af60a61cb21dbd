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
	"github.com/kinesin-io/kinesin/internal/clock"
)

// How a server that does not answer is tried again.
const (
	retryWaitMin   = 50 * time.Millisecond
	retryWaitMax   = 500 * time.Millisecond // so that work goes on within a second after a restart
	outageLong     = time.Minute            // from then on, less often:
	outageWaitMax  = 2 * time.Second
	logEveryNth    = 20 // failure to reach the server in a row
	beatsPerLease  = 4
	leaveWithin    = 2 * time.Second
	flushWithinMax = 5 * time.Second // the last results must be acknowledged when draining
)

// session is one lease of this process, from Register to Leave or loss.
type session struct {
	cfg    *Config
	values context.Context //nolint:containedctx // values for handlers; it never ends
	logCtx context.Context //nolint:containedctx // values for the log; it never ends

	worker    string
	proof     []byte        // that the lease is this process's; empty: the server wants none
	length    time.Duration // of the lease
	valid     time.Duration // how long after a heartbeat's sending the process may act
	beatEvery time.Duration
	steps     *clock.Steps // looked at with each heartbeat, for the log
	groups    []*group
	byLambda  map[string]*group
	flushAt   int // reports that are sent without waiting for more

	zero atomic.Int64 // what the server's clock showed, as far as known, when the monotonic clock showed zero; a task.Instant

	gone    chan struct{} // closed when the lease is lost
	quiet   chan struct{} // holds one value when a drain or a loss has come further
	outWake chan struct{} // holds one value when the outbox is to be looked at
	retime  chan struct{} // holds one value when the keeper of time sleeps too long
	beatNow chan struct{} // holds one value when the next heartbeat is to be sent at once

	mu        sync.Mutex // guards what follows and the attempts; never held across a call
	attempts  map[key]*attempt
	running   int
	busy      bool // a handler was started since the keeper of time last woke
	timeline  timeline
	armed     time.Duration // monotonic; when the keeper of time wakes up
	outbox    outbox
	fencedOff []*attempt // for the hook, to be called without the lock
	draining  bool

	renewed     clock.Readings // when the last accepted heartbeat was sent
	misses      int            // heartbeats in a row that failed
	doubted     bool           // by the wall clock alone the lease is over: nothing starts until a heartbeat says otherwise
	lost        bool
	lostWhy     string
	lostRunning int
	kept        []*attempt // with their results, which the next registration takes along if nothing ran
}

// register opens a lease, and gives up the one that was lost, if there was one. It tries until a server
// answers; it returns nil and no error when ctx ends.
func (c *Controller) register(ctx context.Context, lost *session) (*session, error) {
	request := &kinesinv1.RegisterRequest{
		Name: c.cfg.Name, LeaseMicros: c.cfg.Lease.Microseconds(), Groups: wireGroups(c.cfg.Groups), Previous: lost.previous(),
	}
	for failures := 1; ctx.Err() == nil; failures++ {
		sent := clock.Read(c.cfg.Clock)
		response, err := c.cfg.Backend.Register(ctx, request)
		if err == nil {
			lost.concludeKept(response.Acks)
			return c.newSession(ctx, response, sent), nil
		}
		if errors.Is(err, api.ErrInvalid) || errors.Is(err, api.ErrUnknownLambda) || errors.Is(err, api.ErrUnsupported) || errors.Is(err, api.ErrUnauthenticated) {
			return nil, fmt.Errorf("register worker: %w", err)
		}
		if failures%logEveryNth == 1 && ctx.Err() == nil {
			c.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "register failed, trying again", slog.Int("failures", failures), slog.Any("error", err))
		}
		_ = clock.Sleep(ctx, c.cfg.Clock, jittered(retryWaitMax, failures, c.cfg.Clock.Uint64())) // the loop looks at ctx
	}
	return nil, nil //nolint:nilnil // asked to stop before there was anything
}

func wireGroups(groups []Group) []*kinesinv1.SlotGroup {
	wire := make([]*kinesinv1.SlotGroup, len(groups))
	for i, g := range groups {
		wire[i] = &kinesinv1.SlotGroup{Lambdas: g.Lambdas, Slots: uint32(g.Slots)}
	}
	return wire
}

func (c *Controller) newSession(ctx context.Context, r *kinesinv1.RegisterResponse, sent clock.Readings) *session {
	length := cmp.Or(time.Duration(r.LeaseMicros)*time.Microsecond, c.cfg.Lease)
	forever := context.WithoutCancel(ctx)
	s := &session{
		cfg: &c.cfg, values: forever, logCtx: forever,
		worker: r.Worker, proof: r.Proof, length: length, valid: validity(length),
		beatEvery: cmp.Or(time.Duration(r.HeartbeatMicros)*time.Microsecond, length/beatsPerLease),
		byLambda:  map[string]*group{},
		gone:      make(chan struct{}), quiet: make(chan struct{}, 1), outWake: make(chan struct{}, 1), retime: make(chan struct{}, 1), beatNow: make(chan struct{}, 1),
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
		s.cfg.Logger.LogAttrs(forever, slog.LevelWarn, "wall clock stepped", slog.String("worker", s.worker), slog.Duration("by", by.Round(time.Millisecond)))
	})
	s.zero.Store(int64(sent.Wall.Add(-sent.Mono)))
	return s
}

// run works under the lease until ctx ends or the lease is lost.
func (s *session) run(ctx context.Context) error {
	s.cfg.Logger.LogAttrs(ctx, slog.LevelInfo, "worker registered", slog.String("worker", s.worker), slog.Duration("lease", s.length))
	s.tellHeld(s.renewed)
	live, stop := context.WithCancel(s.values)
	var own sync.WaitGroup
	own.Go(func() { s.keepTime(live) })
	own.Go(func() { s.beat(live) })
	own.Go(func() { s.stream(live) })
	finish := func() {
		stop()
		own.Wait()
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
		return fmt.Errorf("%w: %d of them go on, %v after they were told to stop", ErrAbandoned, abandoned, s.cfg.KillAfter)
	}
	return nil
}

// inOrder lists the attempts in hand in an order that does not depend on chance. Call with mu held.
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

// forget drops an attempt from the hands. Call with mu held.
func (s *session) forget(a *attempt) {
	if s.attempts[a.key] == a {
		delete(s.attempts, a.key)
	}
}

// settled tells a drain or a loss that something has come to its end. Call with mu held.
func (s *session) settled() {
	if s.draining || s.lost {
		poke(s.quiet)
	}
}

// await waits until done, d at most, or until gone is closed. It reports whether done.
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
		case <-s.quiet:
		case <-timer.C():
			return false
		case <-gone:
			return false
		}
	}
}

// awaitRunning waits until no handler runs, d at most, and returns how many do.
func (s *session) awaitRunning(d time.Duration, gone <-chan struct{}) int {
	s.await(d, gone, func() bool { return s.running == 0 })
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}
