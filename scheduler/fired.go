package scheduler

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/task"
)

// firedPartition is a partition whose tasks this process dispatches.
type firedPartition struct {
	task.Partition
	minheap.Place // in idlePartitions.looks

	loop atomic.Pointer[loop] // nil: the partition is idle; changed with idlePartitions.mu held
	// later is the earliest wake-up of which a hint came since the last look, and of which no loop was told.
	later atomic.Int64

	// These are guarded by idlePartitions.mu.
	since  task.Instant // when the partition came here: see fullScan
	lookAt tick         // when it is looked at next
	warm   bool         // it was looked at, or a loop has read it
	gone   bool         // its tasks are not dispatched here any more
}

// note notes a wake-up that no loop was told of.
func (p *firedPartition) note(at task.Instant) {
	for have := p.later.Load(); int64(at) < have; have = p.later.Load() {
		if p.later.CompareAndSwap(have, int64(at)) {
			return
		}
	}
}

// isWarm reports whether all tasks of the partition that are due soon are known.
func (p *firedPartition) isWarm(i *idlePartitions) bool {
	if l := p.loop.Load(); l != nil {
		return l.stats.warm.Load()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return p.warm
}

// Before orders partitions by when they are looked at.
func (p *firedPartition) Before(other *firedPartition) bool { return p.lookAt < other.lookAt }

// idlePartitions are the fired partitions without a loop.
type idlePartitions struct {
	changed  chan struct{} // has an element when the next look may be sooner
	progress progress

	mu    sync.Mutex                    // guards what follows
	group *loopGroup                    // nil: Run has not begun, or ends
	wall  loopClock                     // the clock of a loop that was never idle
	rows  int                           // of look-ahead for a loop that is started
	loops int                           // how many run
	looks minheap.Heap[*firedPartition] // by when they are looked at
}

// look plans the next look at a partition. Call with mu held.
func (i *idlePartitions) look(p *firedPartition, at tick) {
	p.lookAt = at
	if i.looks.Put(p); p.IsFirst() {
		notify(i.changed)
	}
}

// begin lets partitions have loops, which g starts; after end they get none.
func (i *idlePartitions) begin(g *loopGroup, c clock.Clock) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.group, i.wall, i.loops = g, newLoopClock(c, g.start), 0
	i.looks.Clear()
}

func (i *idlePartitions) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.group = nil
	i.looks.Clear()
}

// loopGroup starts loops, and waits for them.
type loopGroup struct {
	sync.WaitGroup

	ctx   context.Context //nolint:containedctx // of Run, which starts the loops
	start tick            // when Run began
}
