package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// clockLookEvery is how often the wall clock is compared with the monotonic one. Where a step matters at once
// it is looked for besides.
const clockLookEvery = time.Second

// How a step is counted.
const (
	stepForward = "forward"
	stepBack    = "back"
)

// watchClock notices when the wall clock is set, until ctx ends.
func (n *Node) watchClock(ctx context.Context) error {
	for clock.Sleep(ctx, n.clock, clockLookEvery) == nil {
		n.steps.Look()
	}
	return nil
}

// clockStepped tells of a step of the wall clock, and has all that counts by it count on.
func (n *Node) clockStepped(by time.Duration) {
	direction := stepForward
	if by < 0 {
		direction = stepBack
	}
	n.metrics.clockSteps.WithLabelValues(direction).Inc()
	n.metrics.clockStep.Set(by.Seconds())
	n.log.LogAttrs(context.Background(), slog.LevelWarn, "wall clock stepped, waiting tasks follow it and worker leases do not",
		slog.Duration("by", by.Round(time.Millisecond)))
	if n.scheduler != nil {
		n.scheduler.ClockStepped(by)
		n.sweeper.ClockStepped(by)
	}
	n.queue.ClockStepped(by)
}
