package mem

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks implements store.Driver.
func (d *Driver) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return read(ctx, d, d.tasks, ids)
}

// Wakeups implements store.Driver.
func (d *Driver) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	return read(ctx, d, d.wakeups, keys)
}

func read[K comparable](ctx context.Context, d *Driver, rows map[K]task.Task, keys []K) ([]task.Task, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	found := make([]task.Task, len(keys))
	for i, key := range keys {
		found[i] = owned(rows[key])
	}
	return found, nil
}

// Payload implements store.Driver.
func (d *Driver) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	payload, ok := d.payloads[id]
	if !ok {
		return nil, store.ErrNotFound
	}
	return payload, nil
}

// ScanSchedule implements store.Driver.
func (d *Driver) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	var rows []task.Task
	scan(d.byWake, indexKey{p, after.Wake, after.ID}, through, func(k indexKey) bool {
		rows = append(rows, owned(d.wakeups[store.WakeKey{Partition: p, Wake: k.at, ID: k.id}]))
		return len(rows) < limit
	})
	return rows, nil
}

// scan visits the entries of a partition after the given one and at or before through.
func scan(index *btree.BTreeG[indexKey], after indexKey, through task.Instant, visit func(indexKey) bool) {
	index.AscendGreaterOrEqual(after, func(k indexKey) bool {
		if k == after {
			return true
		}
		return k.partition == after.partition && k.at <= through && visit(k)
	})
}

// ScanEnded implements store.Driver; its order is (expiry, id), and its cursor the last such pair.
func (d *Driver) ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, nil, err
	}
	after, err := decodeCursor(cursor)
	if err != nil {
		return nil, nil, err
	}
	var rows []task.Task
	var next []byte
	scan(d.byExpiry, after, maxInstant, func(k indexKey) bool {
		t := d.tasks[k.id]
		if (s != task.Unknown && t.State != s) || (p != nil && t.Partition != *p) {
			return true
		}
		rows = append(rows, owned(t))
		if len(rows) < limit {
			return true
		}
		next = encodeCursor(k)
		return false
	})
	return rows, next, nil
}

const maxInstant = task.Instant(1<<63 - 1)

func encodeCursor(k indexKey) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(k.at))
	return append(b, k.id[:]...)
}

func decodeCursor(b []byte) (k indexKey, err error) {
	switch len(b) {
	case 0:
		return indexKey{at: -maxInstant}, nil
	case 8 + len(k.id):
		k.at = task.Instant(binary.BigEndian.Uint64(b))
		copy(k.id[:], b[8:])
		return k, nil
	}
	return k, store.ErrMalformed
}

// Controls implements store.Driver.
func (d *Driver) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	var rows []store.Control
	for key, c := range d.controls {
		if key.kind == kind && (name == "" || key.name == name) {
			c.Value = slices.Clone(c.Value)
			rows = append(rows, c)
		}
	}
	slices.SortFunc(rows, func(a, b store.Control) int { return strings.Compare(a.Name, b.Name) })
	return rows, nil
}
