// Package backoff computes the pauses between the repetitions of what failed. All roles and drivers use it,
// so that there is one rule: full jitter above a floor, doubling up to a cap, in the time and chance of a
// clock.Clock.
package backoff

import (
	"context"
	"sync"
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

// Breaker keeps callers away from a service that failed, for longer with every failure in a row. It is safe
// for concurrent use.
type Breaker struct {
	Policy Policy

	mu       sync.Mutex // guards the rest
	failures int
	until    task.Instant // steady time
}

// Left returns for how long callers still stay away; 0 when they need not.
func (b *Breaker) Left(c clock.Clock) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.until.Sub(clock.Steady(c)))
}

// Failed notes a failure and returns for how long callers stay away.
func (b *Breaker) Failed(c clock.Clock) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	pause := b.Policy.Pause(c, b.failures)
	b.until = clock.Steady(c).Add(pause)
	return pause
}

// Fails reports whether the last call failed.
func (b *Breaker) Fails() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failures > 0
}

// Succeeded ends the pause and forgets the failures.
func (b *Breaker) Succeeded() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures, b.until = 0, 0
}

// Worked forgets the failures, but cuts no pause short that others need.
func (b *Breaker) Worked() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = 0
}
