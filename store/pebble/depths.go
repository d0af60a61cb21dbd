package pebble

import (
	"bytes"
	"context"
	"errors"
	"log/slog"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// liveTasks returns the counts of live tasks, as store.Capabilities.Depths.
func (d *Driver) liveTasks() (counts map[task.Partition]store.Depth, ready bool) {
	ready = d.counted.Load() // before the counts: they may become complete in between
	return d.parts.depths(), ready
}

// countDepths adds the tasks in the snapshot to the counters, which the committer changes at the same time;
// the snapshot is older than its first write. It finds live task rows by their wake-up rows, because there
// may be many times as many ended rows.
func (d *Driver) countDepths(ctx context.Context, snapshot *pebbledb.Snapshot) {
	err := d.readError(d.countWakeups(ctx, snapshot))
	if err != nil {
		d.cfg.Logger.ErrorContext(ctx, "counting stored tasks failed", slog.String("error", err.Error()))
	}
	if err := snapshot.Close(); err != nil {
		d.cfg.Logger.ErrorContext(ctx, "closing a snapshot failed", slog.String("error", err.Error()))
	}
	d.counted.Store(err == nil && ctx.Err() == nil)
}

func (d *Driver) countWakeups(ctx context.Context, snapshot *pebbledb.Snapshot) error {
	rows, err := snapshot.NewIter(&pebbledb.IterOptions{UseL6Filters: true})
	if err != nil {
		return err
	}
	var rowKey []byte
	err = each(snapshot, []byte{wakeSpace}, []byte{wakeSpace + 1}, func(key, value []byte) (bool, error) {
		wakeup, err := store.DecodeHeader(value)
		if err != nil {
			return false, err
		}
		p, at := d.parts.get(store.DecodePartition(key[1:])), decodePosition(key[len(key)-positionLen:])
		p.countWakeup(wakeup.State, 1)
		rowKey = appendIDKey(rowKey[:0], taskSpace, at.id)
		if rows.SeekPrefixGE(rowKey) && bytes.Equal(rows.Key(), rowKey) {
			value, err := rows.ValueAndErr()
			if err != nil {
				return false, err
			}
			row, err := store.DecodeHeader(value)
			if err != nil {
				return false, err
			}
			if row.WakeRow.At == at.at && row.Partition == wakeup.Partition { // else it is counted with another wake-up row
				p.countRow(row.State, 1)
			}
		}
		return ctx.Err() == nil, rows.Error()
	})
	return errors.Join(err, rows.Close())
}
