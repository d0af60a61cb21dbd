package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
)

const (
	// stalledMax is how long a loop may make no progress. Each makes some every 10 seconds at least, unless a
	// call to a service hangs, and such a call is given up before.
	stalledMax = time.Minute
	// unreadMax is how long reads of a partition may fail, a service may not answer and the disk of an embedded
	// store may complete no write before that is reported; what failed is retried within seconds.
	unreadMax = 5 * time.Second
)

// NotReady returns why new work should go elsewhere; empty if it should not.
func (n *Node) NotReady() string {
	switch {
	case n.draining.Load():
		return "not ready: stopping"
	case !n.running.Load():
		return "not ready: starting"
	case n.damaged() != "":
		return n.damaged()
	case n.diskWait() > unreadMax:
		return fmt.Sprintf("not ready: the disk of the store has completed no write for %s; nothing can be acknowledged", n.diskWait().Round(time.Second))
	case n.scheduler != nil && !n.warm.Load():
		return "not ready: reading ahead the partitions of this process"
	case n.unread() > 0:
		return fmt.Sprintf("not ready: %d partitions cannot be read; their tasks are not dispatched", n.unread())
	case n.store.Full():
		return "not ready: the store is full; it takes no new tasks and still runs those it has"
	case !n.shared && n.queueOutage.lasts() > unreadMax:
		return "not ready: the queue service does not answer; tasks stay in the store"
	}
	return ""
}

// ready says that new work may come, and which service is away nevertheless: servers that share a store stay
// ready then, or else all of them would be out at once.
func (n *Node) ready() string {
	const away = "ready, but the %s has not answered for %s"
	if lasts := n.storeOutage.lasts(); lasts > unreadMax {
		return fmt.Sprintf(away, "store", lasts.Round(time.Second))
	}
	if lasts := n.queueOutage.lasts(); lasts > unreadMax {
		return fmt.Sprintf(away, "queue", lasts.Round(time.Second))
	}
	return "ready"
}

// damaged names the files of the store of which a part cannot be read; empty if there are none. The rest is
// served.
func (n *Node) damaged() string {
	health, _ := n.store.Health()
	if len(health.Damaged) == 0 {
		return ""
	}
	return "not ready: damaged files, some rows of which cannot be read: " + strings.Join(health.Damaged, ", ")
}

// diskWait returns for how long writes have waited for the disk of an embedded store, which completed none.
func (n *Node) diskWait() time.Duration {
	health, _ := n.store.Health()
	return health.Waiting
}

// unread returns how many partitions this process cannot read. One of several processes over a store does not
// report it: while the store is away all of them would be unready at once.
func (n *Node) unread() int {
	if n.scheduler == nil || n.shared {
		return 0
	}
	return n.scheduler.Unread(unreadMax)
}

// NotLive names a loop of this process that makes no progress, so that it has to be restarted; empty if there
// is none.
func (n *Node) NotLive() string {
	if n.draining.Load() || !n.running.Load() {
		return ""
	}
	for _, loop := range n.loops() {
		if stalled := loop.stalled(); stalled > stalledMax {
			return fmt.Sprintf("stuck: %s, for %d s", loop.name, int(stalled.Seconds()))
		}
	}
	return ""
}

// loop is a loop that has to make progress.
type loop struct {
	name    string
	stalled func() time.Duration
}

func (n *Node) loops() []loop {
	loops := []loop{{"lambdas", n.catalog.Stalled}}
	if n.scheduler != nil {
		loops = append(loops, loop{"scheduler", n.scheduler.Stalled})
	}
	if n.members != nil && n.members.rows != nil {
		loops = append(loops, loop{"membership", n.members.rows.Stalled})
	}
	if n.members != nil && n.members.watched != nil {
		loops = append(loops, loop{"membership by pods", n.members.watched.Stalled})
	}
	return loops
}

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
