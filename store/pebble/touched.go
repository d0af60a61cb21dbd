package pebble

// touched is the set of keys that the group under construction has changed, by fingerprint. A row
// whose key is in it waits for the next group, so that conditions need to look only at
// what the database shows. Emptying it is free.
type touched struct {
	slots []touchedSlot // a power of two, at least twice the rows of a group
	round uint32        // slots of other rounds are empty
}

type touchedSlot struct {
	print uint64
	round uint32
}

func newTouched() *touched { return &touched{slots: make([]touchedSlot, 4*groupRowsMax), round: 1} }

func (t *touched) clear() {
	t.round++
	if t.round == 0 {
		clear(t.slots)
		t.round = 1
	}
}

// add reports whether print was absent, and adds it.
func (t *touched) add(print uint64) bool {
	mask := uint64(len(t.slots) - 1)
	for i := print & mask; ; i = (i + 1) & mask {
		switch slot := &t.slots[i]; {
		case slot.round != t.round:
			*slot = touchedSlot{print, t.round}
			return true
		case slot.print == print:
			return false
		}
	}
}
