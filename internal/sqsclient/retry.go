package sqsclient

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
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
