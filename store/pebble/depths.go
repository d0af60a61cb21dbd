package pebble

import (
	"log/slog"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Depths implements store.Depther.
func (d *Driver) Depths() (map[task.Partition]store.Depth, bool) {
	return d.parts.depths(), d.counted.Load()
}

// countDepths adds what was stored before the start to the counters, which the committer
// moves meanwhile: the snapshot is older than its first write.
func (d *Driver) countDepths(snapshot *pebbledb.Snapshot) {
	err := d.countSpace(snapshot, waitingSpace, func(p *part) { p.depth.waiting.Add(1) })
	if err == nil {
		err = d.countSpace(snapshot, wakeSpace, func(p *part) { p.depth.awake.Add(1) })
	}
	if err != nil {
		d.cfg.Logger.Error("counting stored tasks failed", slog.String("error", err.Error()))
	}
	if err := snapshot.Close(); err != nil {
		d.cfg.Logger.Error("closing a snapshot failed", slog.String("error", err.Error()))
	}
	d.counted.Store(err == nil && !d.closing.Load())
}

func (d *Driver) countSpace(snapshot *pebbledb.Snapshot, space byte, count func(*part)) error {
	var of task.Partition
	var current *part
	return eachOf(snapshot, []byte{space}, []byte{space + 1}, func(key []byte, _ func() ([]byte, error)) (bool, error) {
		p := store.DecodePartition(key[1:])
		if current == nil || p != of {
			of, current = p, d.parts.get(p)
		}
		count(current)
		return !d.closing.Load(), nil
	}, d.readError)
}
