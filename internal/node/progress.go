package node

import (
	"fmt"
	"time"
)

// stalledMax is how long a loop may take to get on. All of them do every 10 seconds at the latest, unless a
// call to a service hangs, and those are given up before.
const stalledMax = time.Minute

// notLive says which loop of this process has stopped making progress, so that it is better started again;
// empty when all go on.
func (n *Node) notLive() string {
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

// loop is something that has to get on.
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

// unreadMax is how long a partition may not be readable before that is told: a read that fails is tried again
// within seconds.
const unreadMax = 5 * time.Second

// unread is how many partitions this process cannot read. One of several over a store does not tell: all of
// them would be out at once while the store is away.
func (n *Node) unread() int {
	if n.scheduler == nil || n.shared {
		return 0
	}
	return n.scheduler.Unread(unreadMax)
}
