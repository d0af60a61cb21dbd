package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/task"
)

// retries are the pauses before a partition whose store or queue fails is tried again.
var retries = backoff.Policy{Min: 20 * time.Millisecond, Max: 5 * time.Second}

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
// hold up the others: it is counted and logged here, and the row is checked again after a while.
func (s *shared) retryable(ctx context.Context, p task.Partition, err error) error {
	if isPermanent(err) {
		s.countFailure(p, err)
		s.Log.ErrorContext(ctx, "task cannot be moved on", slog.String("partition", p.String()), slog.Any("error", err))
		return nil
	}
	return err
}

// taskRows reads task rows of a partition. A row that cannot be read has an ID and no state, also when no other row was asked
// for.
func (s *shared) taskRows(ctx context.Context, p task.Partition, ids []task.ID) ([]task.Task, error) {
	rows, err := s.Store.Tasks(ctx, ids)
	if len(ids) == 1 && isPermanent(err) {
		return []task.Task{{ID: ids[0]}}, s.retryable(ctx, p, err)
	}
	return rows, err
}
