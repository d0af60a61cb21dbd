package pebble

import (
	"encoding/binary"

	"github.com/kinesin-io/kinesin/task"
)

// fresh knows of most new tasks that no row of theirs exists, without looking at the database,
// which would cost more than writing the row. It relies on the time inside a UUIDv7, but not on any clock:
//
//   - it remembers every row that was put since some moment (as two generations of
//     fingerprints, the older of which is dropped when the newer is full), and
//   - for each generation the latest time in an id put before it began.
//
// So an id with a later time than was seen before the older generation has a row only if the fingerprints say
// so. bound carries that over a restart: it is stored, no id with a row has reached it, and it is moved ahead
// of an id that does. Everything here belongs to the committer.
type fresh struct {
	young, old generation
	max        int64 // after the latest time in an id seen so far
	bound      int64
}

// generation is a set of fingerprints with all rows put since it began.
type generation struct {
	set   *touched
	count int
	since int64 // no id put before it began has this time or a later one
}

const (
	freshRowsMax  = 1 << 17 // of one generation: 4 MB
	freshAheadMax = 60_000  // milliseconds by which bound is moved beyond an id
)

// newFresh begins with what a database says of the ids in it.
func newFresh(bound int64, rows int) *fresh {
	f := &fresh{max: bound, bound: bound}
	f.young, f.old = generation{set: newTouched(rows), since: bound}, generation{set: newTouched(rows), since: bound}
	return f
}

// millisOf is the time in a UUIDv7; ok is false for other ids.
func millisOf(id task.ID) (ms int64, ok bool) {
	return int64(binary.BigEndian.Uint64(id[:]) >> 16), id[6]>>4 == 7
}

// put notes a row that is about to be written if it is absent. It reports whether it is known to
// be absent; if not, the database must be asked.
func (f *fresh) put(id task.ID, hash uint64) (absent bool) {
	ms, ok := millisOf(id)
	if !ok {
		return false
	}
	if f.young.count == f.young.set.rowsMax() {
		f.old, f.young = f.young, generation{set: f.old.set, since: f.max}
		f.young.set.clear()
	}
	f.max = max(f.max, ms+1)
	seen := f.old.set.has(hash)
	if f.young.set.add(hash) {
		f.young.count++
	} else {
		seen = true
	}
	return ms >= f.old.since && !seen
}

// outgrown reports whether ids reached the stored bound, and the new one that must be
// written together with them.
func (f *fresh) outgrown() (bound int64, yes bool) {
	if f.max <= f.bound {
		return 0, false
	}
	f.bound = f.max + freshAheadMax
	return f.bound, true
}
