package pebble

import (
	"errors"
	"log/slog"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Depths implements store.Depther.
func (d *Driver) Depths() (counts map[task.Partition]store.Depth, ready bool) {
	ready = d.counted.Load() // before the counts: they may become complete in between
	return d.parts.depths(), ready
}

// countDepths adds what was stored before the start to the counters, which the committer
// moves meanwhile: the snapshot is older than its first write.
func (d *Driver) countDepths(snapshot *pebbledb.Snapshot) {
	err := d.countSpace(snapshot, waitingSpace, func(_ []byte, value func() ([]byte, error)) (task.State, error) {
		return stateOf(value())
	})
	if err == nil {
		err = d.countSpace(snapshot, wakeSpace, func(key []byte, _ func() ([]byte, error)) (task.State, error) {
			return d.stateIn(snapshot, decodePosition(key[len(key)-positionLen:]).id)
		})
	}
	if err != nil {
		d.cfg.Logger.Error("counting stored tasks failed", slog.String("error", err.Error()))
	}
	if err := snapshot.Close(); err != nil {
		d.cfg.Logger.Error("closing a snapshot failed", slog.String("error", err.Error()))
	}
	d.counted.Store(err == nil && !d.closing.Load())
}

// stateIn reads the state of a task row; task.Unknown, which nobody counts, when there is none.
func (d *Driver) stateIn(snapshot *pebbledb.Snapshot, id task.ID) (task.State, error) {
	value, closer, err := snapshot.Get(appendIDKey(nil, taskSpace, id))
	if errors.Is(err, pebbledb.ErrNotFound) {
		return task.Unknown, nil
	}
	if err != nil {
		return task.Unknown, d.readError(err)
	}
	s, err := stateOf(value, nil)
	return s, errors.Join(err, closer.Close())
}

// stateOf is the state of an encoded task that was read with err.
func stateOf(value []byte, err error) (task.State, error) {
	if err != nil {
		return task.Unknown, err
	}
	h, err := store.DecodeHeader(value)
	return h.State, err
}

func (d *Driver) countSpace(snapshot *pebbledb.Snapshot, space byte, stateAt func(key []byte, value func() ([]byte, error)) (task.State, error)) error {
	var of task.Partition
	var current *part
	return eachOf(snapshot, []byte{space}, []byte{space + 1}, func(key []byte, value func() ([]byte, error)) (bool, error) {
		p := store.DecodePartition(key[1:])
		if current == nil || p != of {
			of, current = p, d.parts.get(p)
		}
		s, err := stateAt(key, value)
		if err == nil && s != task.Unknown {
			current.count(s, 1)
		}
		return !d.closing.Load(), err
	}, d.readError)
}
