package pebble

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	pebbledb "github.com/cockroachdb/pebble/v2"

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

// floor is a lower bound of the live entries of one index in one partition. Indexes are used as queues:
// entries leave at the head, and every scan would walk over their tombstones until a compaction drops them.
// So a scan that would start below the floor starts at it, and raises it to the first live entry that it
// finds. An entry that stays long keeps the floor low. A scan that starts above the floor walks over the
// tombstones there, of which there are only as many as its start is behind now (60,000 tombstones take 2 ms;
// see BenchmarkLook).
//
// The floor is exact because of three rules. The committer lowers it before an entry becomes visible. A scan
// notes the entries that are being inserted (pending) before it opens its iterator, and all that are inserted
// from then on (lowest), so an entry that its iterator cannot see keeps the floor low. One scan raises the
// floor at a time.
type floor struct {
	mu      sync.Mutex
	low     position // no live entry is below
	pending position // lowest entry evaluated but not yet visible; last for none
	raising bool     // a scan that may raise the floor is running
	lowest  position // lowest entry inserted or pending since that scan began
}

func newFloor() floor { return floor{pending: last} }

// insert notes an entry that will soon become visible, and reports whether it is the first since visible was
// called.
func (f *floor) insert(p position) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	first = f.pending == last
	f.low = earlier(f.low, p)
	f.pending = earlier(f.pending, p)
	if f.raising {
		f.lowest = earlier(f.lowest, p)
	}
	return first
}

// visible notes that an iterator opened from now on sees every entry noted so far.
func (f *floor) visible() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = last
}

// start returns the position at which a scan of the entries from a position on begins. The scan calls it
// before it opens its iterator, and raise at its end if raises is true.
func (f *floor) start(from position) (low position, raises bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.low.less(from) {
		return from, false // there may be live entries in between
	}
	if !f.raising {
		f.raising, f.lowest, raises = true, f.pending, true
	}
	return f.low, raises
}

// raise ends a scan whose first live entry is at head.
func (f *floor) raise(head position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raising = false
	f.low = later(f.low, earlier(head, f.lowest))
}

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
