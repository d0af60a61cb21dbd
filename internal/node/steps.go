package node

import (
	"math"

	"github.com/kinesin-io/kinesin/task"
)

// Look has the scheduler look again at what is due in a partition from an instant on, and returns the number of the look
// (scheduler.Scheduler.Look).
func (n *Node) Look(p task.Partition, from task.Instant) uint64 { return n.scheduler.Look(p, from) }

// Rests reports whether the scheduler has nothing to do with a partition before it acts, and which look it has made
// (scheduler.Scheduler.Rests). What is due there then is held.
func (n *Node) Rests(p task.Partition) (look uint64, acts task.Instant, ok bool) {
	return n.scheduler.Rests(p)
}

// WorkRests reports whether nothing works now that no task tells of: no job, no look at circuit breakers, no follow-up that
// is to take its key, and no group of partitions that is to be opened. It returns when the first of them goes on.
func (n *Node) WorkRests() (until task.Instant, ok bool) {
	until = task.Instant(math.MaxInt64)
	for _, rests := range []func() (task.Instant, bool){n.jobs.Rests, n.breakers.Rests, n.chains.Rests, n.scheduler.Attends} {
		at, ok := rests()
		if !ok {
			return 0, false
		}
		until = min(until, at)
	}
	return until, true
}
