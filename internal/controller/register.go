package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// registrationRefusals are those that no repetition changes.
var registrationRefusals = []error{api.ErrInvalid, api.ErrUnsupported, api.ErrUnauthenticated, api.ErrPermissionDenied}

// register opens a lease, and gives up the one of the lost session, which may be nil. It tries until a server
// answers and one of the lambdas exists; it returns nil and no error when ctx ends.
func (c *Controller) register(ctx context.Context, lost *session) (*session, error) {
	request := &kinesinv1.RegisterRequest{
		Name: c.cfg.Name, Version: c.cfg.Version, Lease: c.cfg.Lease.Microseconds(), Groups: wireGroups(c.cfg.Groups), Previous: lost.previous(),
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
	length := cmp.Or(task.Micros(r.Lease), c.cfg.Lease)
	s := &session{
		cfg: &c.cfg, ctx: context.WithoutCancel(ctx),
		worker: r.Worker, proof: r.Proof, length: length, valid: validity(length),
		heartbeatEvery: cmp.Or(task.Micros(r.Heartbeat), length/heartbeatsPerLease),
		byLambda:       map[string]*group{},
		gone:           make(chan struct{}), progress: make(chan struct{}, 1), outboxReady: make(chan struct{}, 1),
		timerChanged: make(chan struct{}, 1), heartbeatNow: make(chan struct{}, 1),
		attempts: map[key]*attempt{}, dues: map[task.Instant][]*attempt{}, renewed: sent, giveUp: func(error) {},
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

const (
	// keptMax bounds the results that outlive their lease: a server takes no more in one call.
	keptMax      = 10_000
	releasedLost = "the worker's lease was lost before it started"
)

// keepResults keeps the results of all attempts whose handlers do not run, those that have ended first. Call
// with mu held, after the handlers were told to stop.
func (s *session) keepResults() {
	var unstarted []*attempt
	for _, a := range s.inOrder() {
		switch {
		case a.state == running:
			continue
		case a.dropped:
		case a.state == ended:
			s.kept = append(s.kept, a)
		default:
			unstarted = append(unstarted, a)
		}
		s.forget(a)
	}
	for _, a := range unstarted {
		a.end(Outcome{Kind: task.OutcomeReleased, Error: releasedLost})
	}
	s.kept = append(s.kept, unstarted...)
	s.kept = slices.Clip(s.kept[:min(len(s.kept), keptMax)])
}

// previous returns the lease of a lost session for the next registration, which gives it up: nothing runs
// under it any more, or the process would have ended. A server that gave no proof does not know how to take
// it.
func (s *session) previous() *kinesinv1.PreviousLease {
	if s == nil || len(s.proof) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &kinesinv1.PreviousLease{Worker: s.worker, Proof: s.proof}
	for _, a := range s.kept {
		p.Results = append(p.Results, a.result)
	}
	return p
}

// concludeKept handles the acks of the results that were kept.
func (s *session) concludeKept(acks []*kinesinv1.ResultAck) {
	if s == nil {
		return
	}
	defer s.callFenced()
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := make(map[key]*kinesinv1.Problem)
	for _, ack := range acks {
		if k, ok := keyOf(ack.Task, ack.Attempt); ok && ack.Problem != nil {
			refused[k] = ack.Problem
		}
	}
	for _, a := range s.kept {
		if p := refused[a.key]; p != nil {
			s.refused(a, p)
		}
	}
	s.kept = nil
}
