package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// Pauses between the tries of a call: retryPause within the budget of the client, sparsePause beyond it.
var (
	retryPause  = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second}
	sparsePause = backoff.Policy{Min: time.Second, Max: 8 * time.Second}
)

// A client has a retry budget: a tenth of its calls, after a few to begin with. When a server fails for all
// its clients, they must not multiply their calls. A call beyond the budget fails only when its time is over, since
// its caller would call again: it tries after pauses so long that ten seconds have about five tries.
const (
	budgetPerCall   = 0.1
	budgetTokensMax = 20
)

// budget is a token bucket: each call adds to it, each retry takes one token.
type budget struct {
	mu     sync.Mutex
	tokens float64
}

func newBudget() *budget { return &budget{tokens: budgetTokensMax} }

func (b *budget) earn() {
	b.mu.Lock()
	b.tokens = min(b.tokens+budgetPerCall, budgetTokensMax)
	b.mu.Unlock()
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

// retry repeats try while it returns ErrUnavailable, until the tries are used up or the time left is too short for
// another one. A try that meets a quota is repeated when the server says.
func (c *Client) retry(ctx context.Context, what string, try func(context.Context) error) error {
	c.budget.earn()
	throttled, triesMax := c.throttleUntil(ctx), c.cfg.TriesMax
	for n := 1; ; n++ {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if after, wait := throttled.pause(c, err); wait {
			n-- // no server failed
			if clock.Sleep(ctx, c.cfg.Clock, after) != nil {
				return fmt.Errorf("%s: %w: %w", what, context.Cause(ctx), err)
			}
			continue
		}
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		pause, last := c.pauseAfter(ctx, n, throttled.end)
		if n >= triesMax || pause < retryPause.Min {
			return fmt.Errorf("%s, tried %d times: %w", what, n, err)
		}
		if last {
			triesMax = n + 1
		}
		if clock.Sleep(ctx, c.cfg.Clock, pause) != nil {
			return fmt.Errorf("%s, tried %d times: %w: %w", what, n, context.Cause(ctx), err)
		}
	}
}

// pauseAfter returns the pause after n tries. If the time that is left is shorter than that, the pause is half of it,
// so that there is a last try. A call that has no deadline ends, beyond the budget, as one that met a quota.
func (c *Client) pauseAfter(ctx context.Context, n int, end time.Duration) (pause time.Duration, last bool) {
	deadline, bounded := ctx.Deadline()
	left := clock.Until(c.cfg.Clock, deadline)
	if pause = retryPause.Pause(c.cfg.Clock, n); !c.budget.spend() {
		pause = sparsePause.Pause(c.cfg.Clock, n)
		if !bounded {
			left, bounded = end-clock.Mono(c.cfg.Clock), true
		}
	}
	if last = bounded && pause >= left; last {
		pause = left / 2
	}
	return pause, last
}

const (
	// throttledPauseMin is the least pause before a call is repeated that met a quota.
	throttledPauseMin = 10 * time.Millisecond
	// throttledMax is how long a call waits for a quota, or tries again beyond the budget, whose context has no
	// deadline.
	throttledMax = 10 * time.Second
)

// throttling is until when a call waits for quotas.
type throttling struct {
	end  time.Duration // in monotonic time
	once bool          // the client makes no second tries
}

func (c *Client) throttleUntil(ctx context.Context) throttling {
	left := throttledMax
	if deadline, has := ctx.Deadline(); has {
		left = clock.Until(c.cfg.Clock, deadline)
	}
	return throttling{clock.Mono(c.cfg.Clock) + left, c.cfg.TriesMax == 1}
}

// pause returns when a call is to be repeated that met a quota; false if it is not, or met none.
func (t throttling) pause(c *Client, err error) (after time.Duration, wait bool) {
	refused, is := errors.AsType[*api.Error](err)
	if !is || !errors.Is(err, ErrThrottled) || t.once {
		return 0, false
	}
	after = max(refused.RetryAfter, throttledPauseMin)
	return after, clock.Mono(c.cfg.Clock)+after < t.end
}
