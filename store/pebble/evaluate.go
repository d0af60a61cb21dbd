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
	if w.new && w.place == 0 && d.space.isFull() { // a task that is half in is let through
		return store.ErrFull
	}
	switch w.kind {
	case store.PutWakeup:
		return d.putWakeup(g, r, w)
	case store.DeleteWakeup:
		return d.deleteWakeup(g, r, w)
	case store.ReplaceWakeup:
		return d.replaceWakeup(g, r, w)
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

// conflict is the answer to a write that found a row in its way.
func conflict(value []byte, decode decoder) error {
	t, err := decode.own(value)
	if err != nil {
		return err
	}
	return &store.ConflictError{Task: &t}
}

// taskConflict is conflict with a task row.
func taskConflict(value []byte) error { return conflict(value, store.DecodeTask) }

func (d *Driver) putWakeup(g *group, r *request, w *row) error {
	p := d.part(w.head.Partition)
	if !d.fresh.put(w.id, w.hash) {
		if err := d.overtake(g, r, w, p); err != nil {
			return err
		}
	}
	g.pending(&p.wakeups, position{w.head.WakeRow.At, w.id})
	p.countWakeup(w.head.State, 1)
	d.heads.put(w.headKey(), w.head)
	return g.batch.Set(r.key(w), r.val(w), nil)
}

// takes reports whether the deletion of a wake-up row is of the one with that header.
func (w *row) takes(old *store.Header) bool {
	return w.head.Partition == old.Partition && (w.head.WakeRow.Seq == 0 || w.head.WakeRow.Seq == old.WakeRow.Seq)
}

// headKey is what the header of a wake-up row is remembered by.
func (w *row) headKey() headKey { return headKey{w.id, w.head.WakeRow.At} }

// overtake refuses a wake-up row unless the one in its place, if there is one, has a lower seq.
func (d *Driver) overtake(g *group, r *request, w *row, p *part) error {
	var old store.Header
	found, err := d.seek(g, r.key(w), func(value []byte) (err error) {
		if old, err = store.DecodeHeader(value); err == nil && old.WakeRow.Seq >= w.head.WakeRow.Seq {
			err = conflict(value, store.DecodeWakeup)
		}
		return err
	})
	if found && err == nil {
		p.countWakeup(old.State, -1)
	}
	return err
}

func (d *Driver) deleteWakeup(g *group, r *request, w *row) error {
	if old, known := d.heads.get(w.headKey()); known && w.takes(&old) {
		return d.removeWakeup(g, r.key(w), w.id, &old)
	}
	look := d.look
	if len(r.rows) >= seekRowsMin {
		look = func(key []byte, see func([]byte) error) (bool, error) { return d.seek(g, key, see) }
	}
	var old store.Header
	found, err := look(r.key(w), func(value []byte) (err error) {
		if old, err = store.DecodeHeader(value); err == nil && w.head.WakeRow.Seq != 0 && old.WakeRow.Seq != w.head.WakeRow.Seq {
			err = conflict(value, store.DecodeWakeup)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		return &store.ConflictError{}
	}
	return d.removeWakeup(g, r.key(w), w.id, &old)
}

// removeWakeup deletes a wake-up row that is there. One at seq 1 was set only once since it was last deleted,
// for what replaces a row has a higher seq than it, and no seq is below 1. So a tombstone for one Set will
// do, which disappears with it in the first compaction that sees both.
func (d *Driver) removeWakeup(g *group, key []byte, id task.ID, old *store.Header) error {
	d.part(old.Partition).countWakeup(old.State, -1)
	d.heads.drop(headKey{id, old.WakeRow.At})
	if old.WakeRow.Seq == 1 {
		return g.batch.SingleDelete(key, nil)
	}
	return g.batch.Delete(key, nil)
}

// replaceWakeup leaves the key where it is, so no floor moves.
func (d *Driver) replaceWakeup(g *group, r *request, w *row) error {
	var old store.Header
	found, err := d.look(r.key(w), func(value []byte) (err error) {
		if old, err = store.DecodeHeader(value); err == nil && old.WakeRow.Seq != w.head.WakeRow.Seq-1 {
			err = conflict(value, store.DecodeWakeup)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !found {
		return &store.ConflictError{}
	}
	p := d.part(w.head.Partition)
	p.countWakeup(old.State, -1)
	p.countWakeup(w.head.State, 1)
	d.heads.put(w.headKey(), w.head)
	return g.batch.Set(r.key(w), r.val(w), nil)
}

func (d *Driver) putTask(g *group, r *request, w *row) error {
	if found, err := d.lookAbsent(g, r.key(w), w, taskConflict); found || err != nil {
		return err
	}
	d.part(w.head.Partition).countRow(w.head.State, 1)
	d.heads.put(taskHead(w.id), w.head)
	return errors.Join(g.batch.Set(r.key(w), r.val(w), nil), d.addEnded(g, w))
}

func (d *Driver) replaceTask(g *group, r *request, w *row) error {
	old, known := d.heads.get(taskHead(w.id))
	if !known || old.Seq != w.head.Seq-1 {
		found, err := d.look(r.key(w), func(value []byte) (err error) {
			if old, err = store.DecodeHeader(value); err == nil && old.Seq != w.head.Seq-1 {
				err = taskConflict(value)
			}
			return err
		})
		if err != nil {
			return err
		}
		if !found {
			return &store.ConflictError{}
		}
	}
	d.heads.put(taskHead(w.id), w.head)
	d.part(old.Partition).countRow(old.State, -1)
	d.part(w.head.Partition).countRow(w.head.State, 1)
	return errors.Join(g.batch.Set(r.key(w), r.val(w), nil), d.moveEnded(g, w, &old))
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
	if !d.touched.add(wakeFingerprint(w.id, old.WakeRow.At)) {
		return &store.ConflictError{} // its wake-up row is changed by this group: the next sweep takes both
	}
	if err := d.dropWakeup(g, w.id, &old); err != nil {
		return err
	}
	d.heads.drop(taskHead(w.id))
	d.touched.add(fingerprint(payload, payloadSpace))
	d.scratchKey = appendIDKey(d.scratchKey[:0], payloadSpace, payload)
	return errors.Join(
		g.batch.Delete(d.scratchKey, nil),
		g.batch.Delete(r.key(w), nil),
		d.dropEnded(g, w.id, &old),
	)
}

// dropWakeup deletes the wake-up row that an ended row names, if it is still there as it was put.
func (d *Driver) dropWakeup(g *group, id task.ID, row *store.Header) error {
	var old store.Header
	key := d.scratchIndexKey(wakeSpace, row.Partition, position{row.WakeRow.At, id})
	found, err := d.seek(g, key, func(value []byte) (err error) {
		old, err = store.DecodeHeader(value)
		return err
	})
	if !found || err != nil || old.WakeRow.Seq != row.WakeRow.Seq {
		return err
	}
	return d.removeWakeup(g, key, id, &old)
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
