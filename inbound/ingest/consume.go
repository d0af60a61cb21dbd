package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/task"
)

// closeMax bounds the last deletes when a Run ends.
const closeMax = 10 * time.Second

// consumeBackoff is for the pauses after the buffer or the store failed.
var consumeBackoff = backoff.Policy{Min: 100 * time.Millisecond, Max: 30 * time.Second}

const (
	// Messages that arrive while nobody receives share the next receive. Schedule puts nothing into the
	// buffer that is due sooner than Near, so there is time; but not after something that is due soon, as
	// clients may send themselves, nor after something old, since more of it may wait.
	receivePause     = 500 * time.Millisecond // after a receive that was not full
	receivePauseSoon = 20 * time.Millisecond
	nearPauses       = 10 // a pause lasts at most that part of Near
	soonMax          = 2 * time.Second
	freshMax         = 2 * time.Second
)

// Run takes tasks from the buffer to the store until ctx ends; then it finishes what it has received. A
// worthless message costs one receive; one that cannot be taken now comes again with backoff; while the store
// or the buffer fails, Run pauses.
func (in *Ingest) Run(ctx context.Context) error {
	if in.Buffer == nil {
		<-ctx.Done()
		return nil
	}
	c := &consumer{
		Ingest: in, limiter: limiter{rate: in.Rate, tasksEach: 1}, deletes: in.newDeletes(), breaker: backoff.Breaker{Policy: consumeBackoff},
	}
	in.Backlog.begin()
	c.runs.SetLimit(in.Concurrency)
	c.start(ctx, true)
	err := c.runs.Wait()
	closing, cancel := clock.Within(context.WithoutCancel(ctx), in.Clock, closeMax)
	defer cancel()
	return errors.Join(err, c.deletes.Close(closing))
}

// consumer is one Run.
type consumer struct {
	*Ingest
	limiter limiter
	deletes *gather.Gatherer[buffer.Message]
	breaker backoff.Breaker
	runs    errgroup.Group // goroutines that receive
}

// start starts a goroutine that receives, unless Concurrency of them run. With always it receives until ctx ends, otherwise
// until a receive is not full. A receive costs money whether it brings anything or not, so only full ones start another
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

// receive handles the messages of one receive; full says that there may be more, ok that receiving goes on.
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

// failed makes all goroutines pause, for longer after each failure in a row.
func (c *consumer) failed(ctx context.Context, err error) {
	if pause := c.breaker.Failed(c.Clock); c.Hooks.Paused != nil {
		c.Hooks.Paused(ctx, err, pause)
	}
}

// handle stores the tasks in messages and deletes the messages that are done with. It returns how many tasks there were,
// and how long to wait for more if there were few messages.
func (c *consumer) handle(ctx context.Context, messages []buffer.Message) (tasks int, pause time.Duration) {
	if len(messages) == 0 {
		c.Backlog.received(0)
		return 0, 0
	}
	endHiding := c.keepHidden(ctx, messages)
	all, arrivals := c.open(ctx, messages)
	c.Backlog.received(oldest(arrivals))
	results := c.takeIn(ctx, arrivals)
	tasks, pause = len(arrivals), c.pauseAfter(arrivals)
	var failure error
	done := 0
	for i := range all {
		m := &all[i]
		if m.broken != nil {
			tasks++
		}
		failure = cmp.Or(failure, c.settle(ctx, m, arrivals[done:done+m.tasks], results[done:done+m.tasks]))
		done += m.tasks
	}
	endHiding()
	failure = cmp.Or(failure, c.finish(ctx, all, c.deletes))
	switch {
	case failure == nil:
		c.breaker.Succeeded()
	case !slices.ContainsFunc(results, func(r result) bool { return r.outcome == stored }):
		c.failed(ctx, failure) // not for a single task that the store never takes
	}
	return tasks, pause
}

// pauseAfter returns how long to wait after a receive that brought arrivals and was not full.
func (in *Ingest) pauseAfter(arrivals []arrival) time.Duration {
	now := in.Clock.Now()
	for i := range arrivals {
		a := &arrivals[i]
		if a.due <= now.Add(soonMax) || now.Sub(task.Instant(a.Accepted)) > freshMax {
			return receivePauseSoon
		}
	}
	return max(receivePauseSoon, min(receivePause, in.Near/nearPauses))
}
