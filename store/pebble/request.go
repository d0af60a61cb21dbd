package pebble

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"math/bits"
	"slices"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// request is one Apply on its way through the committer. It is encoded in the caller's goroutine, so the
// committer reads nothing of the caller, who may give up waiting.
type request struct {
	rows    []row
	order   []uint32 // of evaluation; see sort
	seen    *keySet  // tasks of a run; used by sort
	buf     []byte   // keys and values of rows
	results []error  // one for each of rows
	lazy    bool     // all rows are
	patient bool     // all rows are, or are lazy
	weight  int64    // its share of queuedBytesMax
	done    chan struct{}
}

// row is one write.
type row struct {
	kind store.OpKind // or sweepRow
	lazy bool
	new  bool
	id   task.ID
	head store.Header // of the row to write
	// place is the row's place in its chain of rows that follow each other; 0 for the first.
	place uint32
	// replaces is the seq of the row that a ReplaceTask replaces.
	replaces uint64
	// version of the control row to write or delete
	version       uint64
	hash          uint64 // of the key
	key, val, end uint32 // where key and value begin and end in buf
}

// sweepRow deletes the ended task id if it still expires at head.ExpireAt.
const sweepRow = store.ReplaceWakeup + 1

func (r *request) key(w *row) []byte { return r.buf[w.key:w.val:w.val] }
func (r *request) val(w *row) []byte { return r.buf[w.val:w.end:w.end] }

// requestBytesMax is the largest buffer kept for reuse.
const requestBytesMax = 2 << 20

func (d *Driver) newRequest(n int) *request {
	r, ok := d.idle.Get().(*request)
	if !ok {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.rows, r.buf, r.results, r.lazy = r.rows[:0], r.buf[:0], make([]error, n), true
	r.patient = true
	return r
}

// recycle keeps an answered request for reuse; the caller must not use it any more.
func (d *Driver) recycle(r *request) {
	if cap(r.buf) <= requestBytesMax {
		r.results = nil
		d.idle.Put(r)
	}
}

// add encodes one op.
func (r *request) add(op *store.Op) {
	t := &op.Task
	w := r.next(op.Kind)
	w.lazy, w.new, w.id = op.Lazy, op.New, t.ID
	if op.Follows {
		w.place = 1
		if n := len(r.rows); n > 1 {
			w.place += r.rows[n-2].place
		}
	}
	r.lazy = r.lazy && op.Lazy
	r.patient = r.patient && (op.Lazy || op.Patient)
	switch op.Kind {
	case store.PutWakeup, store.DeleteWakeup, store.ReplaceWakeup:
		w.hash = wakeFingerprint(t.ID, t.WakeRow.At)
		r.buf = appendIndexKey(r.buf, wakeSpace, t.Partition, position{t.WakeRow.At, t.ID})
	case store.PutTask, store.ReplaceTask:
		w.hash = fingerprint(t.ID, taskSpace)
		r.buf = appendIDKey(r.buf, taskSpace, t.ID)
	case store.PutPayload, store.DeletePayload:
		w.hash = fingerprint(t.ID, payloadSpace)
		r.buf = appendIDKey(r.buf, payloadSpace, t.ID)
	case store.PutControl, store.DeleteControl:
		w.version = op.Control.Version
		r.buf = appendControlKey(r.buf, op.Control.Kind, op.Control.Name)
		w.hash = maphash.Bytes(seed, r.buf[w.key:])
	}
	r.value(w, op)
}

// value encodes the value that the op writes, behind its key.
func (r *request) value(w *row, op *store.Op) {
	w.val = r.here()
	switch op.Kind {
	case store.PutWakeup, store.PutTask, store.ReplaceTask, store.ReplaceWakeup:
		w.head, w.replaces = store.HeaderOf(&op.Task), op.Replaces()
		r.buf = store.AppendTask(r.buf, &op.Task)
	case store.PutPayload:
		r.buf = append(r.buf, op.Payload...)
	case store.PutControl:
		r.buf = store.AppendControl(r.buf, &op.Control)
	case store.DeleteWakeup:
		w.head.Partition, w.head.WakeRow = op.Task.Partition, op.Task.WakeRow
	case store.DeletePayload, store.DeleteControl:
	}
	w.end = r.here()
}

// sort sets the order of evaluation. It cuts the list into runs of chains (a single op is a chain too) which
// begin with the same kind of op and are of different tasks. Within a run the first rows of all chains come
// first, in the order of their keys, so that they enter the memtable side by side; then all second rows, and
// so on. So a row comes after the one that it follows, ops on one key keep their order, and ops stay behind
// ops of another kind that came before them, also on disk.
func (r *request) sort() {
	if n := max(len(r.rows), 1); r.seen == nil || r.seen.rowsMax() < n {
		r.seen = newKeySet(1 << bits.Len(uint(n-1)))
	}
	r.seen.clear()
	r.order = r.order[:0]
	start := 0
	for i := range r.rows {
		w := &r.rows[i]
		if w.place == 0 && (w.kind != r.rows[start].kind || !r.seen.add(fingerprint(w.id, 0))) {
			r.sortRun(start)
			start = i
			r.seen.clear()
			r.seen.add(fingerprint(w.id, 0))
		}
		r.order = append(r.order, uint32(i))
	}
	r.sortRun(start)
}

func (r *request) sortRun(start int) {
	slices.SortFunc(r.order[start:], func(a, b uint32) int {
		v, w := &r.rows[a], &r.rows[b]
		if v.place != w.place {
			return cmp.Compare(v.place, w.place)
		}
		return bytes.Compare(r.key(v), r.key(w))
	})
}

// tries reports whether row i is evaluated: a row that it follows must hold; see store.Op.Holds.
func (r *request) tries(i uint32) bool {
	switch {
	case r.rows[i].place == 0:
		return true
	case i == 0:
		return false
	case r.results[i-1] == nil:
		return true
	}
	return r.rows[i-1].kind == store.PutWakeup && errors.Is(r.results[i-1], store.ErrConflict)
}

// addSweep adds the deletion of an ended task.
func (r *request) addSweep(p position) {
	w := r.next(sweepRow)
	w.lazy, w.id, w.head.ExpireAt = true, p.id, p.at
	w.hash = fingerprint(p.id, taskSpace)
	r.buf = appendIDKey(r.buf, taskSpace, p.id)
	w.val, w.end = r.here(), r.here()
}

// next appends a row of which only kind and key are set.
func (r *request) next(kind store.OpKind) *row {
	r.rows = append(r.rows, row{kind: kind, key: r.here()})
	return &r.rows[len(r.rows)-1]
}

func (r *request) here() uint32 { return uint32(len(r.buf)) }

var seed = maphash.MakeSeed()

// fingerprint stands for a key in a set of changed keys. Two keys with the same fingerprint only end a group
// early.
func fingerprint(id task.ID, space byte) uint64 {
	hi, lo := binary.LittleEndian.Uint64(id[:]), binary.LittleEndian.Uint64(id[8:])
	x, y := bits.Mul64(hi^uint64(space)*0x9e3779b97f4a7c15, lo^0xd6e8feb86659fd93)
	return x ^ y
}

// wakeFingerprint returns the fingerprint of a wake-up row. A move puts one and deletes another of the same
// task.
func wakeFingerprint(id task.ID, wake task.Instant) uint64 {
	return fingerprint(id, wakeSpace) ^ uint64(wake)*0x9e3779b97f4a7c15
}
