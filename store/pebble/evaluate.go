package pebble

import (
	"bytes"
	"errors"
	"fmt"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// evaluate checks the condition of one row against the database, which does not yet show g, and
// adds what the row writes to g's batch. Only the committer calls it, with a row whose key g has not changed.
func (d *Driver) evaluate(g *group, r *request, w *row) error {
	if w.new && d.space.isFull() {
		return store.ErrFull
	}
	switch w.kind {
	case store.PutWaiting:
		return d.putWaiting(g, r, w)
	case store.DeleteWaiting:
		return d.deleteWaiting(g, r, w)
	case store.ReplaceWaiting:
		return d.replaceWaiting(g, r, w)
	case store.PutTask:
		return d.putTask(g, r, w)
	case store.ReplaceTask:
		return d.replaceTask(g, r, w)
	case store.PutPayload:
		return d.putPayload(g, r, w)
	case store.DeletePayload:
		return g.batch.Delete(r.key(w), nil)
	case store.PutControl:
		return d.putControl(g, r, w)
	case store.DeleteControl:
		return d.deleteControl(g, r, w)
	case sweepRow:
		return d.sweepRow(g, r, w)
	}
	return store.ErrMalformed
}

// look calls see with the current value of a key, which is valid only during the call.
// found is false when there is none.
func (d *Driver) look(key []byte, see func(value []byte) error) (found bool, err error) {
	value, closer, err := d.db.Get(key)
	if errors.Is(err, pebbledb.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, d.readError(err)
	}
	defer func() { _ = closer.Close() }()
	if see == nil {
		return true, nil
	}
	return true, see(value)
}

// lookAbsent is look for the key of a row to put, which is most likely not there. It asks the filters of all
// levels, while Get leaves out those of the last level, which holds nearly everything, and reads a block.
func (d *Driver) lookAbsent(g *group, key []byte, w *row, see func(value []byte) error) (found bool, err error) {
	if d.fresh.put(w.id, w.hash) {
		return false, nil
	}
	return d.seek(g, key, see)
}

// seek is look by the iterator of the group: dearer for one key, cheaper for many in order.
func (d *Driver) seek(g *group, key []byte, see func(value []byte) error) (found bool, err error) {
	if g.iter == nil {
		if g.iter, err = d.db.NewIter(&pebbledb.IterOptions{UseL6Filters: true}); err != nil {
			return false, d.readError(err)
		}
	}
	if !g.iter.SeekPrefixGE(key) || !bytes.Equal(g.iter.Key(), key) {
		if err := g.iter.Error(); err != nil {
			return false, d.readError(err)
		}
		return false, nil
	}
	if see == nil {
		return true, nil
	}
	value, err := g.iter.ValueAndErr()
	if err != nil {
		return true, d.readError(err)
	}
	return true, see(value)
}

// seekRowsMin is how many rows of a request make seek cheaper than look.
const seekRowsMin = 16

// conflict is the answer to a write that found a task in its way.
func conflict(value []byte) error {
	t, err := decode(value)
	if err != nil {
		return err
	}
	return &store.ConflictError{Task: &t}
}

// decode reads a task from bytes that are valid only for now.
func decode(value []byte) (task.Task, error) {
	t, err := store.DecodeTask(value)
	t.Payload = bytes.Clone(t.Payload)
	return t, err
}

func (d *Driver) putWaiting(g *group, r *request, w *row) error {
	if found, err := d.lookAbsent(g, r.key(w), w, conflict); found || err != nil {
		return err
	}
	p := d.part(w.head.Partition)
	g.pending(&p.waiting, position{w.due, w.id})
	p.count(w.head.State, 1)
	return g.batch.Set(r.key(w), r.val(w), nil)
}

// deleteWaiting uses a tombstone for one Set, which disappears with it in the first compaction
// that sees both; it needs that the key was not set twice in a row, which putWaiting's condition grants
// for a row that was not replaced since: one at seq 1.
func (d *Driver) deleteWaiting(g *group, r *request, w *row) error {
	look := d.look
	if len(r.rows) >= seekRowsMin {
		look = func(key []byte, see func([]byte) error) (bool, error) { return d.seek(g, key, see) }
	}
	var old store.Header
	found, err := look(r.key(w), func(value []byte) (err error) {
		if old, err = store.DecodeHeader(value); err == nil && w.head.Seq != 0 && old.Seq != w.head.Seq {
			return conflict(value)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		return &store.ConflictError{}
	}
	d.part(w.head.Partition).count(old.State, -1)
	if old.Seq > 1 {
		return g.batch.Delete(r.key(w), nil)
	}
	return g.batch.SingleDelete(r.key(w), nil)
}

// replaceWaiting leaves the key where it is, so no floor moves.
func (d *Driver) replaceWaiting(g *group, r *request, w *row) error {
	var old store.Header
	found, err := d.look(r.key(w), func(value []byte) (err error) {
		old, err = headerAt(value, w.head.Seq-1)
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		return &store.ConflictError{}
	}
	p := d.part(w.head.Partition)
	p.count(old.State, -1)
	p.count(w.head.State, 1)
	return g.batch.Set(r.key(w), r.val(w), nil)
}

// headerAt reads the header of a stored task, which must be at seq.
func headerAt(value []byte, seq uint64) (store.Header, error) {
	h, err := store.DecodeHeader(value)
	if err == nil && h.Seq != seq {
		err = conflict(value)
	}
	return h, err
}

func (d *Driver) putTask(g *group, r *request, w *row) error {
	if found, err := d.lookAbsent(g, r.key(w), w, conflict); found || err != nil {
		return err
	}
	d.countLive(&w.head, 1)
	return errors.Join(g.batch.Set(r.key(w), r.val(w), nil), d.addWake(g, w), d.addEnded(g, w))
}

func (d *Driver) replaceTask(g *group, r *request, w *row) error {
	var old store.Header
	found, err := d.look(r.key(w), func(value []byte) (err error) {
		old, err = headerAt(value, w.head.Seq-1)
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		return &store.ConflictError{}
	}
	d.countLive(&old, -1)
	d.countLive(&w.head, 1)
	return errors.Join(g.batch.Set(r.key(w), r.val(w), nil), d.moveWake(g, w, &old), d.moveEnded(g, w, &old))
}

// countLive counts a task row that has a wake-up.
func (d *Driver) countLive(h *store.Header, change int64) {
	if !h.Wake.IsZero() {
		d.part(h.Partition).count(h.State, change)
	}
}

// moveWake changes the index of wake-ups when the wake-up moved, so that a key in it is set
// only once until it is deleted.
func (d *Driver) moveWake(g *group, w *row, old *store.Header) error {
	if old.Wake == w.head.Wake && old.Partition == w.head.Partition {
		return nil
	}
	return errors.Join(d.dropWake(g, w.id, old), d.addWake(g, w))
}

func (d *Driver) addWake(g *group, w *row) error {
	if w.head.Wake.IsZero() {
		return nil
	}
	p, at := d.part(w.head.Partition), position{w.head.Wake, w.id}
	g.pending(&p.wakes, at)
	return g.batch.Set(d.scratchIndexKey(wakeSpace, w.head.Partition, at), nil, nil)
}

func (d *Driver) dropWake(g *group, id task.ID, old *store.Header) error {
	if old.Wake.IsZero() {
		return nil
	}
	return g.batch.SingleDelete(d.scratchIndexKey(wakeSpace, old.Partition, position{old.Wake, id}), nil)
}

func (d *Driver) moveEnded(g *group, w *row, old *store.Header) error {
	if !old.State.IsEnd() {
		return d.addEnded(g, w)
	}
	return errors.Join(d.dropEnded(g, w.id, old), d.addEnded(g, w))
}

func (d *Driver) addEnded(g *group, w *row) error {
	if !w.head.State.IsEnd() {
		return nil
	}
	at := position{w.head.ExpireAt, w.id}
	g.pending(&d.expiry, at)
	value := append(store.AppendPartition(d.scratchValue[:0], w.head.Partition), byte(w.head.State))
	err := g.batch.Set(d.scratchExpiryKey(at), value, nil)
	if w.head.State != task.Dead {
		return err
	}
	return errors.Join(err, g.batch.Set(d.scratchIndexKey(deadSpace, w.head.Partition, position{w.head.Ended, w.id}), nil, nil))
}

// dropEnded uses plain tombstones, since a redriven task may set the same keys again.
func (d *Driver) dropEnded(g *group, id task.ID, old *store.Header) error {
	err := g.batch.Delete(d.scratchExpiryKey(position{old.ExpireAt, id}), nil)
	if old.State != task.Dead {
		return err
	}
	return errors.Join(err, g.batch.Delete(d.scratchIndexKey(deadSpace, old.Partition, position{old.Ended, id}), nil))
}

func (d *Driver) putPayload(g *group, r *request, w *row) error {
	found, err := d.lookAbsent(g, r.key(w), w, nil)
	if err != nil {
		return err
	}
	if found {
		return &store.ConflictError{}
	}
	return g.batch.Set(r.key(w), r.val(w), nil)
}

func (d *Driver) putControl(g *group, r *request, w *row) error {
	if err := d.checkControl(r, w, w.version-1); err != nil {
		return err
	}
	return g.batch.Set(r.key(w), r.val(w), nil)
}

func (d *Driver) deleteControl(g *group, r *request, w *row) error {
	if err := d.checkControl(r, w, w.version); err != nil {
		return err
	}
	return g.batch.Delete(r.key(w), nil)
}

// checkControl refuses unless the control row is at version; 0 is that of an absent row.
func (d *Driver) checkControl(r *request, w *row, version uint64) error {
	found, err := d.look(r.key(w), func(value []byte) error {
		c, err := decodeControl(r.key(w), value)
		if err == nil && c.Version != version {
			return &store.ConflictError{Control: &c}
		}
		return err
	})
	if err == nil && !found && version != 0 {
		return &store.ConflictError{}
	}
	return err
}

// decodeControl reads a control row from bytes that are valid only for now.
func decodeControl(key, value []byte) (store.Control, error) {
	kind, name, ok := bytes.Cut(key[1:], []byte{0})
	if !ok {
		return store.Control{}, fmt.Errorf("%w: control key %q", store.ErrCorrupt, key)
	}
	return store.DecodeControl(string(kind), string(name), bytes.Clone(value))
}

// sweepRow deletes an ended task with all that belongs to it.
func (d *Driver) sweepRow(g *group, r *request, w *row) error {
	var old store.Header
	payload := w.id
	found, err := d.look(r.key(w), func(value []byte) (err error) {
		if old, err = store.DecodeHeader(value); err == nil && w.id.IsDerived() {
			payload, err = payloadIn(value)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !found || !old.State.IsEnd() || old.ExpireAt != w.head.ExpireAt {
		return &store.ConflictError{}
	}
	d.touched.add(fingerprint(payload, payloadSpace))
	d.scratchKey = appendIDKey(d.scratchKey[:0], payloadSpace, payload)
	return errors.Join(
		g.batch.Delete(d.scratchKey, nil),
		g.batch.Delete(r.key(w), nil),
		d.dropEnded(g, w.id, &old),
	)
}

// payloadIn is the PayloadID of an encoded task.
func payloadIn(value []byte) (task.ID, error) {
	t, err := store.DecodeTask(value)
	return t.PayloadID(), err
}

// pending lowers a floor for an entry of g.
func (g *group) pending(f *floor, p position) {
	if f.insert(p) {
		g.floors = append(g.floors, f)
	}
}

// part is parts.get with a memory for one partition, since ops on one come in runs.
func (d *Driver) part(p task.Partition) *part {
	if d.lastPart == nil || d.lastPartition != p {
		d.lastPartition, d.lastPart = p, d.parts.get(p)
	}
	return d.lastPart
}

func (d *Driver) scratchIndexKey(space byte, p task.Partition, at position) []byte {
	d.scratchKey = appendIndexKey(d.scratchKey[:0], space, p, at)
	return d.scratchKey
}

func (d *Driver) scratchExpiryKey(at position) []byte {
	d.scratchKey = appendExpiryKey(d.scratchKey[:0], at)
	return d.scratchKey
}
