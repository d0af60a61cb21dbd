package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// clockLookEvery is how often the wall clock is compared with the monotonic one. Code for which a step
// matters at once compares them itself.
const clockLookEvery = time.Second

// watchClock looks for steps of the wall clock until ctx ends.
func (n *Node) watchClock(ctx context.Context) error {
	for clock.Sleep(ctx, n.clock, clockLookEvery) == nil {
		n.steps.Look()
	}
	return nil
}

// clockStepped reports a step of the wall clock, and moves everything that is measured by it.
func (n *Node) clockStepped(by time.Duration) {
	direction := stepForward
	if by < 0 {
		direction = stepBack
	}
	n.metrics.clockSteps.WithLabelValues(direction).Inc()
	n.metrics.clockStep.Set(by.Seconds())
	n.log.LogAttrs(context.Background(), slog.LevelWarn, "wall clock stepped; waiting tasks follow it, worker leases do not",
		slog.Duration("by", by.Round(time.Millisecond)))
	if n.scheduler != nil {
		n.scheduler.ClockStepped(by)
		n.sweeper.ClockStepped(by)
	}
	n.queue.ClockStepped(by)
}
