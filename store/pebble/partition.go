package pebble

import (
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// part is what the store keeps in memory about one partition, however large its backlog.
type part struct {
	wakeups floor
	depth   [len(store.Depth{})]atomic.Int64
}

// count adds to the number of tasks in a state.
func (p *part) count(s task.State, change int64) {
	if int(s) < len(p.depth) {
		p.depth[s].Add(change)
	}
}

// countWakeup counts a wake-up row as a task that waits; countRow corrects that for a dispatched one.
func (p *part) countWakeup(s task.State, change int64) {
	if s != task.Acquired {
		s = task.Scheduled
	}
	p.count(s, change)
}

// countRow counts a live task row instead of its wake-up row.
func (p *part) countRow(s task.State, change int64) {
	if !s.IsEnd() {
		p.count(s, change)
		p.count(task.Scheduled, -change)
	}
}

// parts holds a part for each partition that was used since the start, of about 300 bytes each.
type parts struct {
	mu sync.RWMutex
	m  map[task.Partition]*part
}

func (ps *parts) get(p task.Partition) *part {
	ps.mu.RLock()
	found := ps.m[p]
	ps.mu.RUnlock()
	if found != nil {
		return found
	}
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if found = ps.m[p]; found == nil {
		found = &part{wakeups: newFloor()}
		ps.m[p] = found
	}
	return found
}

// depths returns the counts of the partitions that hold something.
func (ps *parts) depths() map[task.Partition]store.Depth {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	counts := make(map[task.Partition]store.Depth, len(ps.m))
	for p, found := range ps.m {
		var n store.Depth
		for s := range n {
			n[s] = found.depth[s].Load()
		}
		n[task.Scheduled] = max(0, n[task.Scheduled]) // a task row may be there without its wake-up row
		if n != (store.Depth{}) {
			counts[p] = n
		}
	}
	return counts
}
