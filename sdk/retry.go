package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
)

// retryPause is between the tries of a call.
var retryPause = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second}

// A client has a retry budget: a tenth of its calls, after a few to begin with. When a server fails for all
// its clients, they must not multiply their calls.
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

// retry repeats try while it returns ErrUnavailable, until the tries or the budget are used up or ctx ends.
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
		if n >= c.cfg.TriesMax || !c.budget.spend() {
			return fmt.Errorf("%s, tried %d times: %w", what, n, err)
		}
		if retryPause.Sleep(ctx, c.cfg.Clock, n) != nil {
			return fmt.Errorf("%s, tried %d times: %w: %w", what, n, context.Cause(ctx), err)
		}
	}
}
