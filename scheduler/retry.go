package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
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

// warn logs a failure that is tried again, unless its kind was logged a moment ago.
func (s *shared) warn(ctx context.Context, message string, err error, attrs ...slog.Attr) {
	if ctx.Err() != nil {
		return
	}
	if ok, suppressed := s.logLimiter.allow(s.Clock, message, err); ok {
		s.Log.LogAttrs(ctx, slog.LevelWarn, message, append(attrs, slog.Int("more", suppressed), slog.Any("error", err))...) //nolint:sloglint // callers pass constants
	}
}

// partitionFailed counts and logs that a partition could not be read or dispatched and is tried again.
func (s *shared) partitionFailed(ctx context.Context, p task.Partition, err error) {
	s.countFailure(p, err)
	s.warn(ctx, "partition will be tried again", err, slog.String("partition", p.String()))
}

func (s *shared) countFailure(p task.Partition, err error) {
	if s.Hooks.Failed != nil {
		s.Hooks.Failed(p, err)
	}
}

// retryable returns an error unless it is permanent. A permanent error belongs to one row, which must not
// hold up the others: it is counted and logged here, and the row is left alone for a while.
func (s *shared) retryable(ctx context.Context, p task.Partition, err error) error {
	if isPermanent(err) {
		s.countFailure(p, err)
		s.Log.ErrorContext(ctx, "task cannot be moved on", slog.String("partition", p.String()), slog.Any("error", err))
		return nil
	}
	return err
}

// taskRows reads task rows of a partition. One that cannot be read has an ID and no state, also when it alone
// was asked for.
func (s *shared) taskRows(ctx context.Context, p task.Partition, ids []task.ID) ([]task.Task, error) {
	rows, err := s.Store.Tasks(ctx, ids)
	if len(ids) == 1 && isPermanent(err) {
		return []task.Task{{ID: ids[0]}}, s.retryable(ctx, p, err)
	}
	return rows, err
}

// isPermanent reports whether an error is of one row, and the same with each try.
func isPermanent(err error) bool {
	return store.IsUnreadable(err) || errors.Is(err, store.ErrMalformed) || errors.Is(err, store.ErrTooLarge)
}
