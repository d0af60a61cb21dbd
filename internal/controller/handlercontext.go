package controller

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// handlerContext returns a context with the values of Run's context but not its end: draining has its own
// rules.
func (s *session) handlerContext(a *attempt) *handlerContext {
	c := &handlerContext{session: s}
	c.Context, c.cancel = context.WithCancelCause(s.ctx)
	if a.timeout > 0 && s.cfg.Clock == clock.Real() { // handlers would misread a virtual deadline
		c.deadline = clock.Deadline(s.cfg.Clock, a.timeout)
	}
	return c
}

// Done is a channel of its own: otherwise package context would tell the contexts that a handler derives from
// this one of the end of the inner one, without asking Err.
func (c *handlerContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

// AfterFunc is called by package context for the contexts that a handler derives, and saves a goroutine for
// each of them.
func (c *handlerContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, f)
}

// Err checks the lease first: in a process that was stopped and goes on, a handler that looks before it acts
// finds its context ended although nothing else here has run yet. It returns context.DeadlineExceeded after
// the timeout, as for any other deadline. It must not be called with session.mu held.
func (c *handlerContext) Err() error {
	if c.Context.Err() == nil {
		c.session.holds()
	}
	err := c.Context.Err()
	if err != nil && errors.Is(context.Cause(c.Context), ErrTimeout) {
		return context.DeadlineExceeded
	}
	return err
}

// Deadline returns when the attempt times out.
func (c *handlerContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
