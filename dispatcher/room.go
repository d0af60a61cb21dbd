package dispatcher

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
)

const (
	// unclaimedMax is for how much time of a quota of starts messages may lie in a queue: all of these start at
	// once when workers come. Where the depth is what a service said a while ago, up to 5 s in queue/sqs, the time
	// has to be longer, or tasks that have started since would keep the next from being sent.
	unclaimedMax        = 150 * time.Millisecond
	unclaimedServiceMax = 7 * time.Second
	// unclaimedServiceMin is how many messages a queue of a service takes at any quota.
	unclaimedServiceMin = 10
)

// Room returns how many more messages a queue takes before it reaches its bound, and a channel that is closed
// when a full queue has room again (nil: ask again later).
func (d *Dispatcher) Room(ctx context.Context, name queue.Name) (int, <-chan struct{}) {
	wait := d.Queue.Room(name)
	most := d.depthMax(name, wait == nil)
	if wait == nil {
		if visible, known := d.depths.get(name); known {
			return max(0, most-visible), nil
		}
	}
	asked := clock.Steady(d.Clock)
	depth, err := d.Queue.Depth(ctx, name)
	if err != nil {
		return most, wait // the depth only limits the rate; an unknown one must not stop dispatch
	}
	if wait == nil {
		d.depths.put(name, depth.Visible, asked)
	}
	return max(0, most-depth.Visible), wait
}

// depthMax returns how many messages may be in a queue; service says that it is not in the memory of this process.
func (d *Dispatcher) depthMax(name queue.Name, service bool) int {
	within, least := unclaimedMax, 1
	if service {
		within, least = unclaimedServiceMax, unclaimedServiceMin
	}
	if d.Starts == nil {
		return d.DepthMax
	}
	starts, limited := d.Starts(name, within)
	if !limited {
		return d.DepthMax
	}
	return min(d.DepthMax, max(least, starts))
}
