package dynamo

import (
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// meteredPartitionsMax bounds the partitions that are counted, also when take is never called.
	meteredPartitionsMax = 1 << 14
	// unitBytes is how much of a row DynamoDB writes for a unit.
	unitBytes = 1 << 10
)

// loadMeter counts what the writes to each partition of the schedule consume. batcher.mu guards it.
type loadMeter struct {
	loads map[task.Partition]store.KeyLoad
}

// add counts a write to the schedule. One whose condition does not hold consumes as much as another. A
// deleted row counts as small, since its size is not known here.
func (m *loadMeter) add(w *write, r result) {
	if r == refused || r == unsent {
		return
	}
	load, known := m.loads[w.group.partition]
	switch {
	case !known && len(m.loads) == meteredPartitionsMax:
		return
	case m.loads == nil:
		m.loads = map[task.Partition]store.KeyLoad{}
	}
	if r == throttled {
		load.Throttled = true
	} else {
		load.Units += 1 + w.bytes/unitBytes
	}
	m.loads[w.group.partition] = load
}

// take returns the counts and starts again from zero.
func (m *loadMeter) take() map[task.Partition]store.KeyLoad {
	loads := m.loads
	m.loads = nil
	return loads
}
