package pebble

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// evaluate checks the condition of one row against the database, which does not yet show g, and adds the
// row's writes to g's batch. Only the committer calls it, for a row whose key g has not changed.
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

// look calls see with the current value of a key, which is valid only during the call. found is false when
// the key is absent.
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

// lookAbsent is look for a key that is most likely absent. It asks the filters of all levels, while look
// reads a block of the last level, which holds nearly everything, without asking its filter.
func (d *Driver) lookAbsent(g *group, key []byte, w *row, see func(value []byte) error) (found bool, err error) {
	if d.fresh.put(w.id, w.hash) {
		return false, nil
	}
	return d.seek(g, key, see)
}

// seek is look by the iterator of the group: it costs more for one key and less for many in order.
func (d *Driver) seek(g *group, key []byte, see func(value []byte) error) (found bool, err error) {
	if g.iter == nil {
		if g.iter, err = d.db.NewIter(&pebbledb.IterOptions{UseL6Filters: true}); err != nil {
			return false, d.readError(err)
		}
	}
	return d.seekBy(g.iter, key, see)
}

func (d *Driver) seekBy(it *pebbledb.Iterator, key []byte, see func(value []byte) error) (found bool, err error) {
	if !it.SeekPrefixGE(key) || !bytes.Equal(it.Key(), key) {
		if err := it.Error(); err != nil {
			return false, d.readError(err)
		}
		return false, nil
	}
	if see == nil {
		return true, nil
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return true, d.readError(err)
	}
	return true, see(value)
}

// seekRowsMin is the number of rows in a request from which on seek is cheaper than look.
const seekRowsMin = 16

// finder is look or seek.
type finder func(key []byte, see func(value []byte) error) (found bool, err error)

// finderOf returns how the rows are looked up which a request changes.
func (d *Driver) finderOf(g *group, r *request) finder {
	if len(r.rows) < seekRowsMin {
		return d.look
	}
	return func(key []byte, see func([]byte) error) (bool, error) { return d.seek(g, key, see) }
}

// oldHeader returns the header of the row that a write changes. The error is a conflict when there is no row,
// or when fits rejects the one that is there.
func oldHeader(find finder, key []byte, decode decoder, fits func(old *store.Header) bool) (old store.Header, err error) {
	found, err := find(key, func(value []byte) (err error) {
		if old, err = store.DecodeHeader(value); err == nil && !fits(&old) {
			err = conflict(value, decode)
		}
		return err
	})
	if err == nil && !found {
		err = &store.ConflictError{}
	}
	return old, err
}

// conflict answers a write whose condition the row with that value does not meet.
func conflict(value []byte, decode decoder) error {
	t, err := decode.own(value)
	if err != nil {
		return err
	}
	return &store.ConflictError{Task: &t}
}

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
	d.headers.put(w.headKey(), w.head)
	return g.batch.Set(r.key(w), r.val(w), nil)
}

// takes reports whether w deletes the wake-up row with that header.
func (w *row) takes(old *store.Header) bool {
	return w.head.Partition == old.Partition && (w.head.WakeRow.Seq == 0 || w.head.WakeRow.Seq == old.WakeRow.Seq)
}

// headKey returns the key of a wake-up row in the header cache.
func (w *row) headKey() headKey { return headKey{w.id, w.head.WakeRow.At} }

// overtake refuses a wake-up row if its place has one whose seq is not lower.
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
	if old, known := d.headers.get(w.headKey()); known && w.takes(&old) {
		return d.removeWakeup(g, r.key(w), w.id, &old)
	}
	old, err := oldHeader(d.finderOf(g, r), r.key(w), store.DecodeWakeup, func(old *store.Header) bool {
		return w.head.WakeRow.Seq == 0 || old.WakeRow.Seq == w.head.WakeRow.Seq
	})
	if err != nil {
		return err
	}
	return d.removeWakeup(g, r.key(w), w.id, &old)
}

// removeWakeup deletes a wake-up row that is there. A row at seq 1 was set only once since it was last
// deleted, because what replaces a row has a higher seq, and no seq is below 1. So it needs only a tombstone
// for one Set, which disappears together with that in the first compaction that sees both.
func (d *Driver) removeWakeup(g *group, key []byte, id task.ID, old *store.Header) error {
	d.part(old.Partition).countWakeup(old.State, -1)
	d.headers.drop(headKey{id, old.WakeRow.At})
	if old.WakeRow.Seq == 1 {
		return g.batch.SingleDelete(key, nil)
	}
	return g.batch.Delete(key, nil)
}

// replaceWakeup keeps the key, so it moves no floor.
func (d *Driver) replaceWakeup(g *group, r *request, w *row) error {
	old, err := oldHeader(d.look, r.key(w), store.DecodeWakeup, func(old *store.Header) bool {
		return old.WakeRow.Seq == w.head.WakeRow.Seq-1
	})
	if err != nil {
		return err
	}
	p := d.part(w.head.Partition)
	p.countWakeup(old.State, -1)
	p.countWakeup(w.head.State, 1)
	d.headers.put(w.headKey(), w.head)
	return g.batch.Set(r.key(w), r.val(w), nil)
}

func (d *Driver) putTask(g *group, r *request, w *row) error {
	if found, err := d.lookAbsent(g, r.key(w), w, taskConflict); found || err != nil {
		return err
	}
	d.part(w.head.Partition).countRow(w.head.State, 1)
	d.headers.put(taskHead(w.id), w.head)
	return errors.Join(g.batch.Set(r.key(w), r.val(w), nil), d.addEnded(g, w))
}

func (d *Driver) replaceTask(g *group, r *request, w *row) error {
	old, known := d.headers.get(taskHead(w.id))
	if !known {
		old, known = d.seen.take(w.id, d.headers)
	}
	if !known || old.Seq != w.replaces {
		var err error
		old, err = oldHeader(d.finderOf(g, r), r.key(w), store.DecodeTask, func(old *store.Header) bool { return old.Seq == w.replaces })
		if err != nil {
			return err
		}
	}
	d.headers.put(taskHead(w.id), w.head)
	d.part(old.Partition).countRow(old.State, -1)
	d.part(w.head.Partition).countRow(w.head.State, 1)
	return errors.Join(g.batch.Set(r.key(w), r.val(w), nil), d.dropEnded(g, w.id, &old), d.addEnded(g, w))
}

// addEnded adds the index entries of an ended row.
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

// dropEnded deletes the index entries of an ended row. It uses plain tombstones, because a redriven task may
// set the same keys again.
func (d *Driver) dropEnded(g *group, id task.ID, old *store.Header) error {
	if !old.State.IsEnd() {
		return nil
	}
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

// checkControl refuses a control row that is not at version; an absent row is at version 0.
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

// decodeControl decodes a control row into memory of its own.
func decodeControl(key, value []byte) (store.Control, error) {
	kind, name, ok := bytes.Cut(key[1:], []byte{0})
	if !ok {
		return store.Control{}, fmt.Errorf("%w: control key %q", store.ErrCorrupt, key)
	}
	return store.DecodeControl(string(kind), string(name), bytes.Clone(value))
}

// deletedHeader stands in the header cache for a row that was deleted, so that no header that was seen before
// counts any more. No write replaces that seq, so the row is looked for.
var deletedHeader = store.Header{Seq: math.MaxUint64}

// sweepRow deletes an expired task row with its payload and its wake-up row.
func (d *Driver) sweepRow(g *group, r *request, w *row) error {
	var t task.Task
	if err := readRow(d.look, r.key(w), &t, store.DecodeTask); err != nil {
		return err
	}
	if !t.State.IsEnd() || t.ExpireAt != w.head.ExpireAt {
		return &store.ConflictError{}
	}
	old, payload := store.HeaderOf(&t), t.PayloadID()
	if !d.touched.add(wakeFingerprint(w.id, old.WakeRow.At)) {
		return &store.ConflictError{} // its wake-up row is changed by this group: the next sweep takes both
	}
	if err := d.dropWakeup(g, w.id, &old); err != nil {
		return err
	}
	d.headers.put(taskHead(w.id), deletedHeader)
	d.touched.add(fingerprint(payload, payloadSpace))
	d.scratchKey = appendIDKey(d.scratchKey[:0], payloadSpace, payload)
	err := g.batch.Delete(d.scratchKey, nil)
	if t.Chain.FollowApart() {
		d.touched.add(fingerprint(t.Chain.FollowID, payloadSpace))
		d.scratchKey = appendIDKey(d.scratchKey[:0], payloadSpace, t.Chain.FollowID)
		err = errors.Join(err, g.batch.Delete(d.scratchKey, nil))
	}
	return errors.Join(err, g.batch.Delete(r.key(w), nil), d.dropEnded(g, w.id, &old))
}

// dropWakeup deletes the wake-up row that an ended row names, if its seq is still the same.
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

// pending lowers a floor for an entry that g inserts.
func (g *group) pending(f *floor, p position) {
	if f.insert(p) {
		g.floors = append(g.floors, f)
	}
}

// part is parts.get. It remembers the last partition, because ops on one come in runs.
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
