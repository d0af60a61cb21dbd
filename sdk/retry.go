package sdk

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// How calls are retried.
const (
	// TriesDefault is how often a call is tried when no server answers; with the
	// waits between them that spans a restart of the server.
	TriesDefault = 9

	retryWaitMin = 50 * time.Millisecond
	retryWaitMax = 2 * time.Second

	// A client retries at most a tenth of its calls, beyond a few to begin with: when a server
	// fails for everybody, its clients must not multiply their calls.
	budgetPerCall   = 0.1
	budgetTokensMax = 20
)

// budget is the bucket of tokens that retries draw from and calls fill.
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

// retry tries until the answer is not ErrUnavailable, the tries or the budget are
// used up, or ctx ends.
func (c *Client) retry(ctx context.Context, what string, try func(context.Context) error) error {
	c.budget.earn()
	for n := 1; ; n++ {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if n >= c.cfg.triesMax || !c.budget.spend() {
			return fmt.Errorf("%s, tried %d times: %w", what, n, err)
		}
		if clock.Sleep(ctx, c.cfg.clock, retryWait(n, c.cfg.clock.Uint64())) != nil {
			return fmt.Errorf("%s, tried %d times: %w: %w", what, n, context.Cause(ctx), err)
		}
	}
}

// retryWait is the wait after the nth try, with full jitter.
func retryWait(n int, jitter uint64) time.Duration {
	ceiling := min(retryWaitMin<<min(n-1, 16), retryWaitMax)
	offset, _ := bits.Mul64(jitter, uint64(ceiling)+1)
	return time.Duration(offset)
}
