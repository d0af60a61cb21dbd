// Package mem is a store.Driver in memory, for tests and simulations, and as the model that other drivers are
// compared with. Its writes are not durable. It is built to be obviously right and not to be fast: one lock,
// maps, and one ordered tree per index.
package mem

import (
	"bytes"
	"cmp"
	"context"
	"slices"
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
	wakeups  map[store.WakeKey]task.Task
	tasks    map[task.ID]task.Task
	payloads map[task.ID][]byte
	controls map[controlKey]store.Control
	depths   map[task.Partition]store.Depth // counts may be below zero; liveTasks reports those as zero

	byWake   *btree.BTreeG[indexKey] // wake-up rows
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
		wakeups:  map[store.WakeKey]task.Task{},
		tasks:    map[task.ID]task.Task{},
		payloads: map[task.ID][]byte{},
		controls: map[controlKey]store.Control{},
		depths:   map[task.Partition]store.Depth{},
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

// Apply implements store.Driver.
func (d *Driver) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	results := make([]error, len(ops))
	for i := range ops {
		if ops[i].Follows && (i == 0 || !ops[i-1].Holds(results[i-1])) {
			results[i] = store.ErrSkipped
			continue
		}
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
	case store.PutWakeup:
		return d.putWakeup(&op.Task)
	case store.DeleteWakeup:
		return d.deleteWakeup(&op.Task)
	case store.ReplaceWakeup:
		return d.replaceWakeup(&op.Task)
	case store.PutTask:
		return d.putTask(&op.Task)
	case store.ReplaceTask:
		return d.replaceTask(op)
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

func (d *Driver) putWakeup(t *task.Task) error {
	if old, ok := d.wakeups[store.KeyOf(t)]; ok {
		if old.WakeRow.Seq >= t.WakeRow.Seq {
			return taskConflict(old)
		}
		d.dropWakeup(&old)
	}
	d.setWakeup(owned(*t))
	return nil
}

func (d *Driver) deleteWakeup(t *task.Task) error {
	old, ok := d.wakeups[store.KeyOf(t)]
	switch {
	case !ok:
		return &store.ConflictError{}
	case t.WakeRow.Seq != 0 && t.WakeRow.Seq != old.WakeRow.Seq:
		return taskConflict(old)
	}
	d.dropWakeup(&old)
	return nil
}

func (d *Driver) replaceWakeup(t *task.Task) error {
	old, ok := d.wakeups[store.KeyOf(t)]
	switch {
	case !ok:
		return &store.ConflictError{}
	case old.WakeRow.Seq != t.WakeRow.Seq-1:
		return taskConflict(old)
	}
	d.dropWakeup(&old)
	d.setWakeup(owned(*t))
	return nil
}

// setWakeup adds a wake-up row that is absent, with its index entry.
func (d *Driver) setWakeup(t task.Task) {
	d.wakeups[store.KeyOf(&t)] = t
	d.byWake.ReplaceOrInsert(wakeKey(&t))
	d.count(t.Partition, wakeupState(&t), 1)
}

// dropWakeup removes a wake-up row and its index entry.
func (d *Driver) dropWakeup(t *task.Task) {
	delete(d.wakeups, store.KeyOf(t))
	d.byWake.Delete(wakeKey(t))
	d.count(t.Partition, wakeupState(t), -1)
}

// wakeupState returns the state in which a wake-up row is counted. Its task counts as scheduled, whatever the
// row holds, until setTask counts a live task row instead.
func wakeupState(t *task.Task) task.State {
	if t.State == task.Acquired {
		return task.Acquired
	}
	return task.Scheduled
}

func (d *Driver) putTask(t *task.Task) error {
	if old, ok := d.tasks[t.ID]; ok {
		return taskConflict(old)
	}
	d.setTask(owned(*t))
	return nil
}

func (d *Driver) replaceTask(op *store.Op) error {
	t := &op.Task
	old, ok := d.tasks[t.ID]
	switch {
	case !ok:
		return &store.ConflictError{}
	case old.Seq != op.Replaces():
		return taskConflict(old)
	}
	d.dropTask(&old)
	d.setTask(owned(*t))
	return nil
}

// setTask adds a row that is absent, with its index entry.
func (d *Driver) setTask(t task.Task) {
	d.tasks[t.ID] = t
	if t.State.IsEnd() {
		d.byExpiry.ReplaceOrInsert(expiryKey(&t))
		return
	}
	d.count(t.Partition, t.State, 1)
	d.count(t.Partition, task.Scheduled, -1) // its wake-up row counts as one
}

// dropTask removes a row and its index entry.
func (d *Driver) dropTask(t *task.Task) {
	delete(d.tasks, t.ID)
	if t.State.IsEnd() {
		d.byExpiry.Delete(expiryKey(t))
		return
	}
	d.count(t.Partition, t.State, -1)
	d.count(t.Partition, task.Scheduled, 1)
}

func wakeKey(t *task.Task) indexKey   { return indexKey{t.Partition, t.WakeRow.At, t.ID} }
func expiryKey(t *task.Task) indexKey { return indexKey{at: t.ExpireAt, id: t.ID} }

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

// owned returns a copy that shares no memory that may change, in the form of a row that was encoded and
// decoded: empty fields are nil.
func owned(t task.Task) task.Task {
	t.History = append([]task.Attempt(nil), t.History...)
	if len(t.Payload) == 0 {
		t.Payload = nil
	}
	return t
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
		t := &expired[i]
		d.dropTask(t)
		delete(d.payloads, t.PayloadID())
		if t.Chain.FollowApart() {
			delete(d.payloads, t.Chain.FollowID)
		}
		if row, ok := d.wakeups[store.KeyOf(t)]; ok && row.WakeRow.Seq == t.WakeRow.Seq {
			d.dropWakeup(&row)
		}
	}
	return len(expired), nil
}

// Capabilities implements store.Driver.
func (d *Driver) Capabilities() store.Capabilities {
	return store.Capabilities{Depths: d.liveTasks, Full: d.isFull}
}

// liveTasks returns the counts of live tasks; they are always ready.
func (d *Driver) liveTasks() (counts map[task.Partition]store.Depth, ready bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	counts = make(map[task.Partition]store.Depth, len(d.depths))
	for p, n := range d.depths {
		n[task.Scheduled] = max(0, n[task.Scheduled])
		if n != (store.Depth{}) {
			counts[p] = n
		}
	}
	return counts, true
}

func (d *Driver) isFull() bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.full
}

// Close implements store.Driver.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return nil
}
