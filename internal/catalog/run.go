package catalog

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Run refreshes until ctx ends.
func (c *Catalog) Run(ctx context.Context) error {
	defer c.isRunning.Store(false)
	for {
		c.lastTry.Store(int64(clock.Mono(c.clock)))
		c.isRunning.Store(true)
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot refresh lambdas", slog.Any("error", err))
		}
		c.cancelStaleDeletions(ctx)
		if clock.Sleep(ctx, c.clock, RefreshEvery) != nil {
			return nil
		}
	}
}

// Stalled returns how long ago Run last began to refresh. It does so every RefreshEvery if the store answers
// in time.
func (c *Catalog) Stalled() time.Duration {
	if !c.isRunning.Load() {
		return 0
	}
	return clock.Mono(c.clock) - time.Duration(c.lastTry.Load())
}
