package scheduler

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// SweepEvery is how often ended rows past their retention are deleted.
	SweepEvery = 30 * time.Second
	// sweepRowsMax bounds one deletion; between two of them others get their turn.
	sweepRowsMax = 1000
)

// Expiring is a store whose expired rows have to be deleted.
type Expiring interface {
	Sweep(ctx context.Context, now task.Instant, limit int) (int, error)
}

// Sweeper deletes ended rows when their retention is over.
type Sweeper struct {
	Store Expiring
	Clock clock.Clock
	Log   *slog.Logger
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		n, err := s.Store.Sweep(ctx, s.Clock.Now(), sweepRowsMax)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "expired rows not deleted", slog.Any("error", err))
		}
		if n == sweepRowsMax && err == nil && ctx.Err() == nil {
			continue
		}
		if clock.Sleep(ctx, s.Clock, SweepEvery) != nil {
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}
