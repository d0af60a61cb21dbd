package controller

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// panicStackBytesMax is how much of the stack of a handler that panicked is kept, so that what it panicked with is kept
// too (task.ErrorText).
const panicStackBytesMax = 640

// execute runs the handler of an attempt that has a slot, and then those of attempts that waited for the slot.
func (s *session) execute(a *attempt) {
	for a != nil {
		s.cfg.Hooks.Started(a.work, a.startedAt.Sub(a.due))
		s.handle(a)
		a = s.finish(a)
	}
}

// handle calls the user's code. A panic fails the attempt, not the worker.
func (s *session) handle(a *attempt) {
	returned := false
	defer func() {
		if !returned {
			s.failAborted(a, recover())
		}
	}()
	a.outcome = s.cfg.Execute(a.ctx, a.work)
	returned = true
}

// failAborted fails an attempt whose handler did not return, but panicked with p or, if p is nil, called
// runtime.Goexit, which ends this goroutine after the deferred calls: another one goes on with the slot.
func (s *session) failAborted(a *attempt, p any) {
	if p != nil {
		a.outcome = Outcome{Kind: task.OutcomeRetriable, Error: panicText(p, debug.Stack())}
		return
	}
	a.outcome = Outcome{Kind: task.OutcomeRetriable, Error: "the handler ended its goroutine (runtime.Goexit)"}
	next := s.finish(a)
	go s.execute(next)
}

func panicText(p any, stack []byte) string {
	lines := strings.Split(string(stack), "\n")
	for i, line := range lines { // from the line after runtime's own "panic(...)"
		if strings.HasPrefix(line, "panic(") {
			lines = lines[min(i+2, len(lines)):]
			break
		}
	}
	text := strings.Join(lines, "\n")
	return fmt.Sprintf("panic: %v\n%s", p, text[:min(len(text), panicStackBytesMax)])
}

// finish records the outcome of an attempt whose handler has returned, and returns the next attempt for its slot; nil: none
// waits.
func (s *session) finish(a *attempt) *attempt {
	o := finalOutcome(a.outcome, context.Cause(a.ctx.Context), a.timeout)
	a.ctx.end(context.Canceled)
	now := clock.Read(s.cfg.Clock)
	s.cfg.Hooks.Ended(a.work, o.Kind, now.Mono-a.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	a.group.running--
	s.timeline.Remove(a)
	if s.lost || a.dropped {
		s.forget(a)
	} else {
		a.end(o)
		s.report(a)
	}
	s.noteProgress()
	return s.nextWaiting(a.group, now)
}

// finalOutcome returns the outcome of a handler that returned, given the cause with which its context had
// ended. A handler that succeeded, or said that no retry will help, is believed.
func finalOutcome(o Outcome, cause error, timeout time.Duration) Outcome {
	if o.Kind != task.OutcomeRetriable && o.Kind != task.OutcomeSnoozed {
		return o
	}
	switch {
	case errors.Is(cause, ErrCancelled):
		return Outcome{Kind: task.OutcomeCancelled, Error: o.Error}
	case errors.Is(cause, ErrDraining):
		return Outcome{Kind: task.OutcomeReleased, Error: cause.Error()}
	case errors.Is(cause, ErrTimeout):
		return Outcome{Kind: task.OutcomeRetriable, Error: strings.TrimSuffix(fmt.Sprintf("timed out after %v: %s", timeout, o.Error), ": ")}
	}
	return o
}

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
