package scheduler

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// SweepEvery is how often ended rows past their retention are deleted.
	SweepEvery = 30 * time.Second
	// sweepRowsMax bounds one deletion; between two of them other writes have their turn.
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
	Steps *clock.Steps // checked before rows are deleted; its owner calls ClockStepped. nil: the clock is never set
	Log   *slog.Logger

	pausedUntil atomic.Int64 // nothing is deleted before, a task.Instant by clock.Steady
}

// ClockStepped says that the wall clock was set. After a step forward, rows expire that ended a moment ago,
// so nothing is deleted until full scans have removed the wake-up rows that a crash may have left of them.
func (s *Sweeper) ClockStepped(by time.Duration) {
	if by > 0 {
		s.pausedUntil.Store(int64(clock.Steady(s.Clock).Add(scansApart)))
	}
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		s.Steps.Look()
		n, err := 0, error(nil)
		if int64(clock.Steady(s.Clock)) >= s.pausedUntil.Load() {
			n, err = s.Store.Sweep(ctx, s.Clock.Now(), sweepRowsMax)
		}
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
