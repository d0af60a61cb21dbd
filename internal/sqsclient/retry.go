package sqsclient

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// retryPauses are the pauses between the tries of a batch.
var retryPauses = backoff.Policy{Min: 50 * time.Millisecond, Max: 2 * time.Second}

// retry tries a batch of n entries, and tries those again whose error isRepeatable. once tries the entries at
// some indexes.
func (c *Client) retry(ctx context.Context, n int, isRepeatable func(error) bool, once func(at []int) []error) []error {
	results, unknown := make([]error, n), make([]bool, n)
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	for try := 1; ; try++ {
		var again []int
		for k, err := range once(at) {
			i := at[k]
			if results[i] = err; err != nil && unknown[i] {
				results[i] = fmt.Errorf("%w; %w", err, errEarlierTry)
			}
			unknown[i] = unknown[i] || IsUnknown(err)
			if isRepeatable(err) {
				again = append(again, i)
			}
		}
		if len(again) == 0 || try == c.Tries || !c.backOff(ctx, try) {
			return results
		}
		at = again
	}
}

// backOff pauses after a failed try. It returns false when there must be no further try.
func (c *Client) backOff(ctx context.Context, try int) bool {
	if c.noRetries.Load() || !c.budget.take(clock.Steady(c.Clock)) {
		return false
	}
	return retryPauses.Sleep(ctx, c.Clock, try) == nil
}

// The retry budget of a client: retryTokensMax at once, and one more every retryTokensEvery.
const (
	retryTokensMax   = 200
	retryTokensEvery = 20 * time.Millisecond
)

// retryBudget bounds the retries of a client, so that a service in trouble does not get twice the load.
type retryBudget struct {
	mu     sync.Mutex
	tokens int
	filled task.Instant
}

// take reports whether one more retry is allowed.
func (b *retryBudget) take(now task.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gained := int(now.Sub(b.filled) / retryTokensEvery); gained > 0 {
		b.tokens = min(retryTokensMax, b.tokens+min(gained, retryTokensMax))
		b.filled = now
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

// errStale ends polls that began before an outage was over.
var errStale = errors.New("the service answers again")

// outage notices when SQS answers again after a request that got no answer. A poll whose connection died
// looks like one of an empty queue until it times out, so polls are then repeated, and nobody backs off any
// longer.
type outage struct {
	mu         sync.Mutex      // guards all below
	unanswered bool            // the latest request got no answer
	ctx        context.Context //nolint:containedctx // ends with errStale when SQS answers again
	end        context.CancelCauseFunc
}

func (o *outage) begin(parent context.Context) { o.ctx, o.end = context.WithCancelCause(parent) }

func (o *outage) current() context.Context {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ctx
}

// note takes the result of every request.
func (o *outage) note(parent context.Context, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if isUnanswered(err) {
		o.unanswered = true
		return
	}
	if o.unanswered {
		o.unanswered = false
		o.end(errStale)
		o.begin(parent)
	}
}
