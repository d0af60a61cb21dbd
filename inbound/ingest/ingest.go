// Package ingest takes the tasks of the inbound buffer to the store, at a steady rate. It rejects messages
// and tasks that it can never take, keeps them for a person, and serves the InboundService of the wire
// contract, with which they are read, retried and deleted. It stores tasks by package intake, as inbound
// does. Nothing leaves the buffer before it is in the store or kept as rejected.
package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// Defaults of Config.
const (
	RateDefault        = 2000
	ConcurrencyDefault = 4
)

const (
	// The lambda of a task may be newer than the catalog: the task is received a few times, a while apart,
	// before it is rejected.
	unknownTriesMax = 6
	unknownTryAfter = 2 * catalog.RefreshEvery

	retryAfterMax  = 2 * time.Minute
	fullRetryAfter = buffer.DelayMax  // of a message that there is no room to reject
	settleMax      = 20 * time.Second // of requests that delete messages or make them come again
	closeMax       = 10 * time.Second // of the last deletes when a Run ends

	// Messages that arrive while nobody receives share the next receive. Schedule puts nothing into the
	// buffer that is due sooner than Near, so there is time; but not after something that is due soon, as
	// clients may send themselves, nor after something old, since more of it may wait.
	receivePause     = 500 * time.Millisecond // after a receive that was not full
	receivePauseSoon = 20 * time.Millisecond
	nearPauses       = 10 // a pause lasts at most that part of Near
	soonMax          = 2 * time.Second
	freshMax         = 2 * time.Second
)

var (
	consumeBackoff = backoff.Policy{Min: 100 * time.Millisecond, Max: 30 * time.Second} // after the buffer or the store failed
	retryBackoff   = backoff.Policy{Min: time.Second, Max: retryAfterMax}               // of a message that the store did not take
)

// Why messages stay in the buffer for now; see Hooks.Left.
const (
	LeftStore   = "store"          // the store did not take it
	LeftUnknown = "unknown_lambda" // its lambda is not known yet
	LeftFull    = "aside_full"     // it is to be rejected, and there is no room for more
)

// Lefts lists why messages stay in the buffer.
func Lefts() []string { return []string{LeftStore, LeftUnknown, LeftFull} }

// Config is what an Ingest is made of.
type Config struct {
	*intake.Intake
	// Buffer holds what was accepted and is not in the store; nil: there is none.
	Buffer   buffer.Buffer
	Backlog  *Backlog
	Rejected *Rejected
	Hooks    Hooks

	// Rate bounds how many tasks a second are taken to the store, on average; a message is taken in one
	// piece. 0: RateDefault; negative: no bound.
	Rate float64
	// Concurrency is how many receives run at a time. 0: ConcurrencyDefault.
	Concurrency int
}

// Hooks observe an Ingest. A nil hook is not called.
type Hooks struct {
	// Consumed: n tasks of the buffer are in the store, or were there already; the oldest was accepted that
	// long ago.
	Consumed func(n int, age time.Duration)
	// Left: n messages stay in the buffer for now, for one of Lefts.
	Left func(why string, n int)
	// Paused: the buffer or the store failed, and consuming pauses that long.
	Paused func(ctx context.Context, err error, pause time.Duration)
	// Ended: tasks ended that were still in the buffer.
	Ended func()
}

// Ingest consumes the buffer. It is safe for concurrent use.
type Ingest struct{ Config }

// New returns an Ingest.
func New(c Config) *Ingest {
	c.Rate = cmp.Or(c.Rate, RateDefault)
	c.Concurrency = cmp.Or(max(c.Concurrency, 0), ConcurrencyDefault)
	return &Ingest{c}
}

// Run takes tasks from the buffer to the store until ctx ends; then it finishes what it has received. A
// worthless message costs one receive; one that cannot be taken now comes again with backoff; while the store
// or the buffer fails, Run pauses.
func (in *Ingest) Run(ctx context.Context) error {
	if in.Buffer == nil {
		<-ctx.Done()
		return nil
	}
	c := &consumer{
		Ingest: in, limiter: limiter{rate: in.Rate, tasksEach: 1}, deleter: newDeleter(ctx, in), breaker: backoff.Breaker{Policy: consumeBackoff},
	}
	in.Backlog.begin()
	c.runs.SetLimit(in.Concurrency)
	c.start(ctx, true)
	err := c.runs.Wait()
	closing, cancel := clock.Within(context.WithoutCancel(ctx), in.Clock, closeMax)
	defer cancel()
	return errors.Join(err, c.deleter.end(closing))
}

// consumer is one Run.
type consumer struct {
	*Ingest
	limiter limiter
	deleter *deleter
	breaker backoff.Breaker
	runs    errgroup.Group // of receives
}

// start receives in a goroutine, unless as many run as may: until ctx ends, or, not always, until a receive
// is not full. A receive costs money whether it brings anything or not, so only full ones start another
// goroutine.
func (c *consumer) start(ctx context.Context, always bool) {
	c.runs.TryGo(func() error {
		for ctx.Err() == nil {
			full, ok := c.receive(ctx)
			switch {
			case !ok:
				return nil
			case full:
				c.start(ctx, false)
			case !always:
				return nil
			}
		}
		return nil
	})
}

// receive takes in what one receive brings; full says that there may be more, ok that the run goes on.
func (c *consumer) receive(ctx context.Context) (full, ok bool) {
	limit, reserved, wait := c.limiter.reserve(clock.Mono(c.Clock))
	if clock.Sleep(ctx, c.Clock, wait) != nil || clock.Sleep(ctx, c.Clock, c.breaker.Left(c.Clock)) != nil {
		return false, false
	}
	received := c.Backlog.receiving()
	messages, err := c.Buffer.Receive(ctx, limit)
	received()
	if err != nil {
		c.limiter.received(reserved, 0, 0)
		if ctx.Err() != nil || errors.Is(err, buffer.ErrClosed) {
			return false, false
		}
		c.failed(ctx, fmt.Errorf("receive from the inbound buffer: %w", err))
		return false, true
	}
	tasks, pause := c.handle(context.WithoutCancel(ctx), messages)
	c.limiter.received(reserved, len(messages), tasks)
	if len(messages) > 0 && len(messages) < limit {
		return false, clock.Sleep(ctx, c.Clock, pause) == nil
	}
	return len(messages) == limit, true
}

// failed makes all runs pause, for longer each time.
func (c *consumer) failed(ctx context.Context, err error) {
	if pause := c.breaker.Failed(c.Clock); c.Hooks.Paused != nil {
		c.Hooks.Paused(ctx, err, pause)
	}
}
