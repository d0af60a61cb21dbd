package dynamo

import (
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keyLoadsMax bounds the partitions whose writes are counted, also where nobody takes the counts.
	keyLoadsMax = 1 << 14
	// unitBytes is how much of a row DynamoDB writes for a unit.
	unitBytes = 1 << 10
)

// noteLoad counts what a write took of its key, if that is one of the schedule. A write whose condition does
// not hold takes as much as another; the size of a row that is deleted is not known here and passes for
// small. The caller holds mu.
func (d *Driver) noteLoad(w *write, v verdict) {
	if w.shape.table != d.tables.schedule || v == refused || v == unsent {
		return
	}
	q := &d.writes
	load, known := q.loads[w.group.partition]
	switch {
	case !known && len(q.loads) == keyLoadsMax:
		return
	case q.loads == nil:
		q.loads = map[task.Partition]store.KeyLoad{}
	}
	if v == putOff {
		load.Throttled = true
	} else {
		load.Units += 1 + w.bytes/unitBytes
	}
	q.loads[w.group.partition] = load
}

// keyLoads is store.Capabilities.KeyLoads.
func (d *Driver) keyLoads() map[task.Partition]store.KeyLoad {
	d.writes.mu.Lock()
	defer d.writes.mu.Unlock()
	loads := d.writes.loads
	d.writes.loads = nil
	return loads
}
