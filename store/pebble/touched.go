package pebble

// touched is a set of fingerprints of keys. The committer keeps the keys that the current group has changed.
// A row whose key is among them waits for the next group, so that conditions only look at the database.
// Emptying the set costs nothing.
type touched struct {
	slots []touchedSlot // a power of two
	round uint32        // slots of other rounds are empty
}

type touchedSlot struct {
	hash  uint64
	round uint32
}

// newTouched makes a set for up to rows keys; rows is a power of two.
func newTouched(rows int) *touched {
	return &touched{slots: make([]touchedSlot, 2*rows), round: 1}
}

func (t *touched) rowsMax() int { return len(t.slots) / 2 }

func (t *touched) clear() {
	t.round++
	if t.round == 0 {
		clear(t.slots)
		t.round = 1
	}
}

// add reports whether hash was absent, and adds it.
func (t *touched) add(hash uint64) bool {
	mask := uint64(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch slot := &t.slots[i]; {
		case slot.round != t.round:
			*slot = touchedSlot{hash, t.round}
			return true
		case slot.hash == hash:
			return false
		}
	}
}

func (t *touched) has(hash uint64) bool {
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
