// Package backoff computes the pauses between the repetitions of what failed. All roles and drivers use it,
// so that there is one rule: full jitter above a floor, doubling up to a cap, in the time and chance of a
// clock.Clock.
package backoff

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Policy bounds the pauses. Min is the shortest pause, Max the longest.
type Policy struct{ Min, Max time.Duration }

// Pause returns the pause after so many failures in a row: it is uniform between Min and the lesser of Max
// and Min doubled with every failure. After none the pause is Min.
func (p Policy) Pause(c clock.Clock, failures int) time.Duration {
	policy := task.Policy{BackoffMin: p.Min, BackoffMax: p.Max}
	return policy.Backoff(uint32(min(max(failures, 0), 63)), c.Uint64())
}

// Sleep pauses after so many failures in a row. When ctx ends first, it returns the cause of that.
func (p Policy) Sleep(ctx context.Context, c clock.Clock, failures int) error {
	return clock.Sleep(ctx, c, p.Pause(c, failures))
}
