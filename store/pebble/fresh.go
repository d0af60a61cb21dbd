package pebble

import (
	"encoding/binary"

	"github.com/kinesin-io/kinesin/task"
)

// fresh knows that most new tasks have no row yet, without looking at the database, which would cost more
// than writing the row. It uses the time inside a UUIDv7, and no clock. It remembers
//
//   - the fingerprint of every row that was put since some moment, in two generations, of which it drops the
//     older one when the newer one is full, and
//   - for each generation the latest time in an id that was put before the generation began.
//
// So an id with a time that is not before the older generation has a row only if its fingerprint is there.
// bound carries that over a restart: it is stored, it is above the time of every id that has a row, and it is
// raised when an id reaches it. Only the committer uses fresh.
type fresh struct {
	young, old generation
	max        int64 // above the time of every id put so far
	bound      int64
}

// generation has the fingerprints of all rows put since it began.
type generation struct {
	set   *keySet
	count int
	since int64 // above the time of every id put before it began
}

const (
	freshRowsMax  = 1 << 17 // of one generation: 4 MB
	freshAheadMax = 60_000  // milliseconds by which bound is raised above an id
)

// newFresh begins with the stored bound of a database.
func newFresh(bound int64, rows int) *fresh {
	f := &fresh{max: bound, bound: bound}
	f.young, f.old = generation{set: newKeySet(rows), since: bound}, generation{set: newKeySet(rows), since: bound}
	return f
}

// millisOf returns the time in a UUIDv7; ok is false for other ids.
func millisOf(id task.ID) (ms int64, ok bool) {
	return int64(binary.BigEndian.Uint64(id[:]) >> 16), id[6]>>4 == 7
}

// put notes a row that is written next if it is absent, and reports whether it is known to be absent. If not,
// the caller asks the database.
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

// outgrown returns a new bound when ids reached the stored one. It must be written together with them.
func (f *fresh) outgrown() (bound int64, yes bool) {
	if f.max <= f.bound {
		return 0, false
	}
	f.bound = f.max + freshAheadMax
	return f.bound, true
}

// keySet is a set of fingerprints of keys. The committer keeps the keys that the current group has changed.
// A row whose key is among them waits for the next group, so that conditions only look at the database.
// Emptying the set costs nothing.
type keySet struct {
	slots []keySlot // a power of two
	round uint32    // slots of other rounds are empty
}

type keySlot struct {
	hash  uint64
	round uint32
}

// newKeySet makes a set for up to rows keys; rows is a power of two.
func newKeySet(rows int) *keySet {
	return &keySet{slots: make([]keySlot, 2*rows), round: 1}
}

func (t *keySet) rowsMax() int { return len(t.slots) / 2 }

func (t *keySet) clear() {
	t.round++
	if t.round == 0 {
		clear(t.slots)
		t.round = 1
	}
}

// add reports whether hash was absent, and adds it.
func (t *keySet) add(hash uint64) bool {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch slot := &t.slots[i]; {
		case slot.round != t.round:
			*slot = keySlot{hash, t.round}
			return true
		case slot.hash == hash:
			return false
		}
	}
}

func (t *keySet) has(hash uint64) bool {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch slot := &t.slots[i]; {
		case slot.round != t.round:
			return false
		case slot.hash == hash:
			return true
		}
	}
}
