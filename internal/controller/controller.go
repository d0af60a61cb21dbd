// Package controller is the worker side of Kinesin: it keeps one process's lease, takes claimed tasks from
// the HSC, runs each in a slot at its time, and reports its outcome.
//
// It owns the lease of its process, the attempts that the process has, and the goroutines they run in. It
// calls the HSC through Backend and the user's code through Config.Execute. It never decides what happens to
// a task: it reports outcomes, and the HSC applies them.
//
// One rule comes before all others: when the lease may have run out, the handlers stop before anything else
// happens, because their tasks may start elsewhere. Each path that starts a task or sends a result checks the
// lease first (lease.go).
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Controller runs the tasks of one process.
type Controller struct {
	cfg Config
}

// New checks a configuration. It starts nothing.
func New(cfg Config) (*Controller, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Controller{cfg: cfg}, nil
}

// Run registers the process and works until ctx ends; then it drains and returns nil. It
// returns ErrLeaseLost when the lease was lost while handlers ran, ErrAbandoned when handlers did
// not return in time (in both cases the process should end), or the server's refusal to register.
func (c *Controller) Run(ctx context.Context) error {
	var lost *session // the session before, nil at first
	for losses := 1; ; losses++ {
		s, err := c.register(ctx, lost)
		if err != nil || s == nil {
			return err
		}
		lost = s
		err = s.run(ctx)
		if !errors.Is(err, errLostIdle) {
			return err
		}
		s.log(slog.LevelWarn, "lease lost while idle; registering again", slog.String("reason", s.lostWhy))
		// A server that takes each lease away at once must not be asked for new ones without a pause.
		if outageRetry.Sleep(ctx, c.cfg.Clock, losses) != nil {
			return nil //nolint:nilerr // asked to stop
		}
	}
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
