// Package mem is the store that keeps everything in memory: for tests, for
// simulations, and as the model that other drivers are compared with. It owes
// all of store.Driver but durability, and is meant to be obviously right
// rather than fast: one lock, maps, and one ordered tree per index.
package mem

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Driver is a store.Driver in memory.
type Driver struct {
	mu       sync.RWMutex // guards everything below
	closed   bool
	full     bool
	waiting  map[store.WaitingKey]task.Task
	tasks    map[task.ID]task.Task
	payloads map[task.ID][]byte
	controls map[controlKey]store.Control
	depths   map[task.Partition]store.Depth

	byDue    *btree.BTreeG[indexKey] // waiting rows
	byWake   *btree.BTreeG[indexKey] // task rows with a wake-up
	byExpiry *btree.BTreeG[indexKey] // ended task rows; partition is zero here
}

type controlKey struct{ kind, name string }

// indexKey is an entry of an index, ordered field by field.
type indexKey struct {
	partition task.Partition
	at        task.Instant
	id        task.ID
}

func (a indexKey) less(b indexKey) bool {
	return cmp.Or(
		cmp.Compare(a.partition.Lambda, b.partition.Lambda),
		cmp.Compare(a.partition.Priority, b.partition.Priority),
		cmp.Compare(a.partition.Shard, b.partition.Shard),
		cmp.Compare(a.at, b.at),
		bytes.Compare(a.id[:], b.id[:]),
	) < 0
}

const treeDegree = 32

func newIndex() *btree.BTreeG[indexKey] { return btree.NewG(treeDegree, indexKey.less) }

// New returns an empty store.
func New() *Driver {
	return &Driver{
		waiting:  map[store.WaitingKey]task.Task{},
		tasks:    map[task.ID]task.Task{},
		payloads: map[task.ID][]byte{},
		controls: map[controlKey]store.Control{},
		depths:   map[task.Partition]store.Depth{},
		byDue:    newIndex(),
		byWake:   newIndex(),
		byExpiry: newIndex(),
	}
}

// SetFull makes the store refuse writes with Op.New, as a store without space does.
func (d *Driver) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// Full reports whether writes with Op.New are refused.
func (d *Driver) Full() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.full
}

// Apply implements store.Driver.
func (d *Driver) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	results := make([]error, len(ops))
	for i := range ops {
		results[i] = d.apply(&ops[i])
	}
	return results, nil
}

// usable refuses calls on a closed store and with an ended context.
func (d *Driver) usable(ctx context.Context) error {
	if d.closed {
		return store.ErrClosed
	}
	return context.Cause(ctx)
}

func (d *Driver) apply(op *store.Op) error {
	if op.New && d.full {
		return store.ErrFull
	}
	switch op.Kind {
	case store.PutWaiting:
		return d.putWaiting(&op.Task)
	case store.DeleteWaiting:
		return d.deleteWaiting(&op.Task)
	case store.ReplaceWaiting:
		return d.replaceWaiting(&op.Task)
	case store.PutTask:
		return d.putTask(&op.Task)
	case store.ReplaceTask:
		return d.replaceTask(&op.Task)
	case store.PutPayload:
		return d.putPayload(op.Task.ID, op.Payload)
	case store.DeletePayload:
		delete(d.payloads, op.Task.ID)
		return nil
	case store.PutControl:
		return d.putControl(op.Control)
	case store.DeleteControl:
		return d.deleteControl(op.Control)
	}
	return store.ErrMalformed
}

func (d *Driver) putWaiting(t *task.Task) error {
	key := store.KeyOf(t)
	if old, ok := d.waiting[key]; ok {
		return taskConflict(old)
	}
	d.waiting[key] = owned(*t)
	d.byDue.ReplaceOrInsert(dueKey(key))
	d.count(t.Partition, t.State, 1)
	return nil
}

func (d *Driver) deleteWaiting(t *task.Task) error {
	key := store.KeyOf(t)
	old, ok := d.waiting[key]
	switch {
	case !ok:
		return &store.ConflictError{}
	case t.Seq != 0 && t.Seq != old.Seq:
		return taskConflict(old)
	}
	delete(d.waiting, key)
	d.byDue.Delete(dueKey(key))
	d.count(key.Partition, old.State, -1)
	return nil
}

func (d *Driver) replaceWaiting(t *task.Task) error {
	key := store.KeyOf(t)
	old, ok := d.waiting[key]
	switch {
	case !ok:
		return &store.ConflictError{}
	case old.Seq != t.Seq-1:
		return taskConflict(old)
	}
	d.waiting[key] = owned(*t)
	d.count(key.Partition, old.State, -1)
	d.count(key.Partition, t.State, 1)
	return nil
}

func (d *Driver) putTask(t *task.Task) error {
	if old, ok := d.tasks[t.ID]; ok {
		return taskConflict(old)
	}
	d.setTask(owned(*t))
	return nil
}

func (d *Driver) replaceTask(t *task.Task) error {
	old, ok := d.tasks[t.ID]
	switch {
	case !ok:
		return &store.ConflictError{}
	case old.Seq != t.Seq-1:
		return taskConflict(old)
	}
	d.dropTask(&old)
	d.setTask(owned(*t))
	return nil
}

// setTask adds a row that is absent, with its index entries.
func (d *Driver) setTask(t task.Task) {
	d.tasks[t.ID] = t
	if t.Wake != 0 {
		d.byWake.ReplaceOrInsert(wakeKey(&t))
		d.count(t.Partition, t.State, 1)
	}
	if t.State.IsEnd() {
		d.byExpiry.ReplaceOrInsert(expiryKey(&t))
	}
}

// dropTask removes a row and its index entries.
func (d *Driver) dropTask(t *task.Task) {
	delete(d.tasks, t.ID)
	if t.Wake != 0 {
		d.byWake.Delete(wakeKey(t))
		d.count(t.Partition, t.State, -1)
	}
	if t.State.IsEnd() {
		d.byExpiry.Delete(expiryKey(t))
	}
}

func dueKey(k store.WaitingKey) indexKey { return indexKey{k.Partition, k.Due, k.ID} }
func wakeKey(t *task.Task) indexKey      { return indexKey{t.Partition, t.Wake, t.ID} }
func expiryKey(t *task.Task) indexKey    { return indexKey{at: t.ExpireAt, id: t.ID} }

func (d *Driver) count(p task.Partition, s task.State, change int64) {
	n := d.depths[p]
	n[s] += change
	if n == (store.Depth{}) {
		delete(d.depths, p)
		return
	}
	d.depths[p] = n
}

func (d *Driver) putPayload(id task.ID, payload []byte) error {
	if _, ok := d.payloads[id]; ok {
		return &store.ConflictError{}
	}
	d.payloads[id] = slices.Clone(payload)
	return nil
}

func (d *Driver) putControl(c store.Control) error {
	key := controlKey{c.Kind, c.Name}
	old, ok := d.controls[key]
	if old.Version != c.Version-1 {
		return controlConflict(old, ok)
	}
	c.Value = slices.Clone(c.Value)
	d.controls[key] = c
	return nil
}

func (d *Driver) deleteControl(c store.Control) error {
	key := controlKey{c.Kind, c.Name}
	old, ok := d.controls[key]
	if !ok || old.Version != c.Version {
		return controlConflict(old, ok)
	}
	delete(d.controls, key)
	return nil
}

func controlConflict(old store.Control, ok bool) error {
	if !ok {
		return &store.ConflictError{}
	}
	old.Value = slices.Clone(old.Value)
	return &store.ConflictError{Control: &old}
}

func taskConflict(old task.Task) error {
	old = owned(old)
	return &store.ConflictError{Task: &old}
}

// owned is a copy that shares nothing that may be written to, in the form a row has after
// being encoded and decoded: what is empty is nil.
func owned(t task.Task) task.Task {
	t.History = append([]task.Attempt(nil), t.History...)
	if len(t.Payload) == 0 {
		t.Payload = nil
	}
	return t
}

// Tasks implements store.Driver.
func (d *Driver) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return read(ctx, d, d.tasks, ids)
}

// Waiting implements store.Driver.
func (d *Driver) Waiting(ctx context.Context, keys []store.WaitingKey) ([]task.Task, error) {
	return read(ctx, d, d.waiting, keys)
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

// ScanWaiting implements store.Driver.
func (d *Driver) ScanWaiting(ctx context.Context, p task.Partition, after store.WaitingKey, through task.Instant, limit int) ([]task.Task, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	var rows []task.Task
	scan(d.byDue, indexKey{p, after.Due, after.ID}, through, func(k indexKey) bool {
		rows = append(rows, owned(d.waiting[store.WaitingKey{Partition: p, Due: k.at, ID: k.id}]))
		return len(rows) < limit
	})
	return rows, nil
}

// ScanWakeups implements store.Driver.
func (d *Driver) ScanWakeups(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	var rows []task.Task
	scan(d.byWake, indexKey{p, after.Wake, after.ID}, through, func(k indexKey) bool {
		rows = append(rows, owned(d.tasks[k.id]))
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

// Sweep implements store.Driver.
func (d *Driver) Sweep(ctx context.Context, now task.Instant, limit int) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		return 0, err
	}
	var expired []task.Task
	scan(d.byExpiry, indexKey{}, now, func(k indexKey) bool {
		expired = append(expired, d.tasks[k.id])
		return len(expired) < limit
	})
	for i := range expired {
		d.dropTask(&expired[i])
		delete(d.payloads, expired[i].PayloadID())
	}
	return len(expired), nil
}

// Depths implements store.Depther; it is always ready.
func (d *Driver) Depths() (map[task.Partition]store.Depth, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return maps.Clone(d.depths), true
}

// Close implements store.Driver. What is held stays readable by nobody.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}
