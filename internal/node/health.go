package node

import (
	"fmt"
	"strings"
	"time"
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
