package pebble

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
