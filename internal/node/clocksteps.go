package node

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
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

// outage tells for how long all calls to a service have failed. It is safe for concurrent use.
type outage struct {
	clock clock.Clock
	since atomic.Int64 // monotonic time, plus 1 so that 0 means that the last call succeeded
}

// note notes how a call ended. A refusal shows that the service answers; a call that was cancelled shows
// nothing.
func (o *outage) note(err error) {
	switch {
	case err == nil, !errors.Is(err, store.ErrUnreachable) && !errors.Is(err, store.ErrUnknown) && !errors.Is(err, queue.ErrUnreachable) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		if o.since.Load() != 0 {
			o.since.Store(0)
		}
	case !errors.Is(err, context.Canceled):
		o.since.CompareAndSwap(0, int64(clock.Mono(o.clock))+1)
	}
}

// lasts returns for how long no call has succeeded; 0 if the last one did.
func (o *outage) lasts() time.Duration {
	since := o.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, clock.Mono(o.clock)-time.Duration(since-1))
}
