package inbound

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// A task of a lambda that is not known may be ahead of the catalog: it is looked at a few times, a while
	// apart, before it is set aside.
	unknownTriesMax  = 6
	unknownTryAfter  = 2 * catalog.RefreshEvery
	consumePauseMin  = 100 * time.Millisecond // after the buffer or the store failed
	consumePauseMax  = 30 * time.Second
	retryAfterMin    = time.Second // of a message that the store did not take
	retryAfterMax    = 2 * time.Minute
	fullRetryAfter   = buffer.DelayMax // of a message that could not be set aside
	settleMax        = 20 * time.Second
	consumeBurstMax  = time.Second // worth of tasks that may be taken at once after a quiet time
	consumedBatchMax = 500 * time.Millisecond

	// What comes while nobody receives shares the next receive. Schedule puts nothing in the buffer that is
	// due sooner than Near, so there is time; but not where something came that is due soon, as from those
	// who send to the buffer themselves, or that is old, since then more may wait.
	receivePause     = 500 * time.Millisecond // after a receive that was not full
	receivePauseSoon = 20 * time.Millisecond
	nearPauses       = 10 // of which one may last, where Near is short
	soonMax          = 2 * time.Second
	freshMax         = 2 * time.Second
)

// Why messages stay in the buffer for now; see Hooks.Left.
const (
	LeftStore   = "store"          // the store did not take it
	LeftUnknown = "unknown_lambda" // its lambda is not known yet
	LeftFull    = "aside_full"     // it is to be set aside, and there is no room for more
)

// Lefts lists them.
func Lefts() []string { return []string{LeftStore, LeftUnknown, LeftFull} }

// Consume takes tasks from the buffer to the store until ctx ends; then it finishes what it has in hand.
// Nothing leaves the buffer before it is in the store or set aside. A message that is good for nothing costs
// one receive, and one that cannot be taken now comes again after a growing while; while the store or the
// buffer fails all of it pauses.
func (in *Inbound) Consume(ctx context.Context) error {
	if in.Buffering.Buffer == nil {
		<-ctx.Done()
		return nil
	}
	c := &consumer{
		Inbound: in, pace: pace{rate: in.Buffering.Rate}, removal: newRemoval(ctx, in),
		rest:      rest{min: consumePauseMin, max: consumePauseMax},
		tasksEach: 1, more: make(chan struct{}, in.Buffering.Concurrency),
	}
	in.backlog.begins(in.Clock)
	var group errgroup.Group
	for n := range in.Buffering.Concurrency {
		group.Go(func() error {
			c.run(ctx, n == 0)
			return nil
		})
	}
	err := group.Wait()
	closing, cancel := clock.Within(context.WithoutCancel(ctx), in.Clock, bufferSendMax)
	defer cancel()
	return errors.Join(err, c.removal.end(closing), in.front.Close(closing))
}

// consumer is one Consume.
type consumer struct {
	*Inbound
	pace    pace
	removal *removal
	more    chan struct{} // a receive came back full: another one may find something too

	rest rest // while the buffer or the store fails

	mu        sync.Mutex // guards tasksEach
	tasksEach float64    // how many tasks a message has, on average
}

// run receives until ctx ends. One of all waits at the buffer all the time; the others only join while
// receives come back full, since a receive costs money whether it brings anything or not.
func (c *consumer) run(ctx context.Context, always bool) {
	for ctx.Err() == nil {
		if !always {
			select {
			case <-c.more:
			case <-ctx.Done():
				return
			}
		}
		for {
			full, ok := c.receive(ctx)
			if !ok || ctx.Err() != nil {
				return
			}
			if full {
				select {
				case c.more <- struct{}{}:
				default:
				}
			} else if !always {
				break
			}
		}
	}
}

// receive takes in what one receive brings; full says that there may be more, ok that it is worth going on.
func (c *consumer) receive(ctx context.Context) (full, ok bool) {
	limit, tasks := c.next()
	if clock.Sleep(ctx, c.Clock, c.pace.reserve(clock.Mono(c.Clock), tasks)) != nil || clock.Sleep(ctx, c.Clock, c.rest.left(c.Clock)) != nil {
		return false, false
	}
	received := c.backlog.waiting(c.Clock)
	messages, err := c.Buffering.Buffer.Receive(ctx, limit)
	received()
	if err != nil {
		c.pace.spend(-tasks)
		if ctx.Err() != nil || errors.Is(err, buffer.ErrClosed) {
			return false, false
		}
		c.trouble(ctx, fmt.Errorf("receive from the inbound buffer: %w", err))
		return false, true
	}
	n, pause := c.handle(context.WithoutCancel(ctx), messages)
	c.pace.spend(n - tasks)
	c.learn(len(messages), n)
	if len(messages) > 0 && len(messages) < limit {
		return false, clock.Sleep(ctx, c.Clock, pause) == nil
	}
	return len(messages) == limit, true
}

// next is how many messages to ask for, and how many tasks these may have: few when the rate is low,
// so that it is steady.
func (c *consumer) next() (messages, tasks int) {
	c.mu.Lock()
	each := c.tasksEach
	c.mu.Unlock()
	messages = buffer.BatchMax
	if c.pace.rate > 0 {
		messages = min(messages, max(1, int(c.pace.rate*consumedBatchMax.Seconds()/each)))
	}
	return messages, max(1, int(float64(messages)*each))
}

func (c *consumer) learn(messages, tasks int) {
	if messages == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	const weight = 0.2
	c.tasksEach = max(1, (1-weight)*c.tasksEach+weight*float64(tasks)/float64(messages))
}

// trouble makes all of the consumer pause, longer each time.
func (c *consumer) trouble(ctx context.Context, err error) {
	if pause := c.rest.failed(c.Clock); c.Hooks.Trouble != nil {
		c.Hooks.Trouble(ctx, err, pause)
	}
}

// pace keeps tasks to a rate: each one moves the moment from which on the next may come.
type pace struct {
	rate float64 // tasks a second; none when not positive

	mu   sync.Mutex    // guards next
	next time.Duration // monotonic time
}

// reserve accounts for n tasks and returns how long to wait before taking them.
func (p *pace) reserve(now time.Duration, n int) time.Duration {
	if p.rate <= 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = max(p.next, now-consumeBurstMax)
	wait := p.next - now
	p.next += p.worth(n)
	return wait
}

// spend corrects a reservation.
func (p *pace) spend(more int) {
	if p.rate <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next += p.worth(more)
}

func (p *pace) worth(n int) time.Duration {
	return time.Duration(float64(n) / p.rate * float64(time.Second))
}
