package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/task"
)

// key names an attempt.
type key struct {
	task    task.ID
	attempt uint32
}

func keyOf(id []byte, attempt uint32) (k key, ok bool) {
	k.attempt = attempt
	return k, len(id) == copy(k.task[:], id) && len(id) == len(k.task)
}

func (k key) held() *kinesinv1.Held { return &kinesinv1.Held{Task: k.task[:], Attempt: k.attempt} }

// stage is how far an attempt has come.
type stage uint8

const (
	held    stage = iota // waits for its time
	waiting              // waits for a slot: more came than there are
	running              // its handler runs
	ended                // its result is not acknowledged yet
)

// attempt is one claimed task that this process has. All fields but the first group are guarded by
// session.mu.
type attempt struct {
	minheap.Place // in the timeline

	key   key
	work  Work
	due   task.Instant
	group *group
	// prompt says that the server awaits its result.
	prompt bool

	state  stage
	ctx    handlerContext
	cancel context.CancelCauseFunc

	start     time.Duration // monotonic
	startedAt task.Instant  // on the server's clock
	reported  bool          // that it started
	overdue   bool          // its timeout has passed
	dropped   bool          // its result is not sent

	result *kinesinv1.Result
	sent   bool // on the stream that is open
	sends  int  // that the server asked to repeat

	alarm time.Duration // monotonic; when something is to be done about it
}

func attemptOf(k key, c *kinesinv1.Claimed, g *group) *attempt {
	return &attempt{
		key: k, prompt: c.GetPrompt(), group: g, due: task.Instant(c.DueMicros),
		work: Work{
			ID: c.Id, Task: k.task, Lambda: c.Lambda, Priority: c.Priority, Collection: c.Collection, Key: c.Key,
			Attempt: int(c.Attempt), Failures: int(c.Failures), MaxAttempts: int(c.MaxAttempts), WorkerLost: int(c.WorkerLost),
			Due: task.Instant(c.DueMicros).Time(), Created: task.Instant(c.CreatedMicros).Time(),
			Timeout: task.Micros(c.TimeoutMicros), Payload: c.Payload,
			Traceparent: c.Traceparent, Tags: c.Tags, Blob: c.Blob, Occurrence: c.Occurrence, Parent: c.Parent, Chain: c.Chain, Member: c.Member, Group: c.Group,
		},
	}
}

// end sets the result of an attempt.
func (a *attempt) end(o Outcome) {
	if n := len(o.Result); n > task.ResultBytesMax {
		o = Outcome{Kind: task.OutcomeRetriable, Error: fmt.Sprintf("the result has %d bytes: at most %d are kept with a task", n, task.ResultBytesMax)}
	}
	a.state = ended
	a.result = &kinesinv1.Result{
		Task: a.key.task[:], Attempt: a.key.attempt, Outcome: o.Kind.String(),
		Error: strings.ToValidUTF8(o.Error[:min(len(o.Error), task.ErrorBytesMax)], ""), StartedMicros: int64(a.startedAt), DelayMicros: o.Delay.Microseconds(),
		Result: o.Result, Add: o.Add,
	}
}

// handlerContext is the context of a handler. The timeline ends it at the deadline, with ErrTimeout as its
// cause.
type handlerContext struct {
	context.Context //nolint:containedctx // it is one

	session  *session
	deadline time.Time
	done     chan struct{} // closed when Context has ended
}

// newHandlerContext returns a context that ends when it is cancelled, with the cause.
func newHandlerContext(s *session, deadline time.Time) (handlerContext, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	c := handlerContext{Context: ctx, session: s, deadline: deadline, done: make(chan struct{})}
	var once sync.Once
	return c, func(cause error) {
		cancel(cause)
		once.Do(func() { close(c.done) })
	}
}

// Done is a channel of its own: otherwise package context would tell the contexts that a handler derives from
// this one of the end of the inner one, without asking Err.
func (c handlerContext) Done() <-chan struct{} { return c.done }

// AfterFunc is called by package context for the contexts that a handler derives, and saves a goroutine for
// each of them.
func (c handlerContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.Context, f)
}

// Err checks the lease first: in a process that was stopped and goes on, a handler that looks before it acts
// finds its context ended although nothing else here has run yet. It returns context.DeadlineExceeded after
// the timeout, as for any other deadline. It must not be called with session.mu held.
func (c handlerContext) Err() error {
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
func (c handlerContext) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }
