package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// retryMin and retryMax bound the pauses before a partition whose store or queue fails is tried again.
const retryMin, retryMax = 20 * time.Millisecond, 5 * time.Second

// retryPause returns the pause after so many failures in a row.
func retryPause(c clock.Clock, failures int) time.Duration {
	return backoff.Policy{Min: retryMin, Max: retryMax}.Pause(c, failures)
}

// breaker is a circuit breaker. After a failure it is open for a pause, in which the calls that it guards are
// not made. The zero value is closed.
type breaker struct {
	retry    task.Instant // open until then
	failures int          // in a row
}

// open opens the breaker after a failure.
func (b *breaker) open(c clock.Clock, now task.Instant) {
	b.failures++
	b.retry = now.Add(retryPause(c, b.failures))
}

// close closes the breaker after a success.
func (b *breaker) close() { *b = breaker{} }

// isOpen reports whether it is too early for another try; a clock that was set back does not make it longer.
func (b *breaker) isOpen(now task.Instant) bool { return b.retry > now && b.retry <= now.Add(retryMax) }

// notBefore returns at, or when the breaker closes if that is later.
func (b *breaker) notBefore(now, at task.Instant) task.Instant {
	if b.isOpen(now) {
		return max(at, b.retry)
	}
	return at
}
