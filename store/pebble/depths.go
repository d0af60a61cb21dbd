package pebble

import (
	"bytes"
	"errors"
	"log/slog"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// liveTasks is store.Capabilities.Depths.
func (d *Driver) liveTasks() (counts map[task.Partition]store.Depth, ready bool) {
	ready = d.counted.Load() // before the counts: they may become complete in between
	return d.parts.depths(), ready
}

// countDepths adds what was stored before the start to the counters, which the committer
// moves meanwhile: the snapshot is older than its first write. It finds the live task rows by their wake-up
// rows, since there may be many times as many ended ones.
func (d *Driver) countDepths(snapshot *pebbledb.Snapshot) {
	err := d.countWakeups(snapshot)
	if err != nil {
		d.cfg.Logger.Error("counting stored tasks failed", slog.String("error", err.Error()))
	}
	if err := snapshot.Close(); err != nil {
		d.cfg.Logger.Error("closing a snapshot failed", slog.String("error", err.Error()))
	}
	d.counted.Store(err == nil && !d.closing.Load())
}

func (d *Driver) countWakeups(snapshot *pebbledb.Snapshot) error {
	rows, err := snapshot.NewIter(&pebbledb.IterOptions{UseL6Filters: true})
	if err != nil {
		return d.readError(err)
	}
	var rowKey []byte
	err = eachOf(snapshot, []byte{wakeSpace}, []byte{wakeSpace + 1}, func(key []byte, value func() ([]byte, error)) (bool, error) {
		wakeup, err := headerOf(value())
		if err != nil {
			return false, err
		}
		p, at := d.parts.get(store.DecodePartition(key[1:])), decodePosition(key[len(key)-positionLen:])
		p.countWakeup(wakeup.State, 1)
		rowKey = appendIDKey(rowKey[:0], taskSpace, at.id)
		if rows.SeekPrefixGE(rowKey) && bytes.Equal(rows.Key(), rowKey) {
			row, err := headerOf(rows.ValueAndErr())
			if err != nil {
				return false, err
			}
			if row.WakeRow.At == at.at && row.Partition == wakeup.Partition { // else another one is counted for it
				p.countRow(row.State, 1)
			}
		}
		return !d.closing.Load(), rows.Error()
	}, d.readError)
	return errors.Join(err, rows.Close())
}

// headerOf is the header of an encoded row that was read with err.
func headerOf(value []byte, err error) (store.Header, error) {
	if err != nil {
		return store.Header{}, err
	}
	return store.DecodeHeader(value)
}
