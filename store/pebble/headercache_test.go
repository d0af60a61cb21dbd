package pebble

import (
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func TestHeadsForgetTheOldest(t *testing.T) {
	h := newHeaderCache(2)
	key := func(n byte) headKey { return taskHead(task.ID{n}) }
	for n := byte(1); n <= 5; n++ {
		h.put(key(n), store.Header{Seq: uint64(n)})
	}
	h.put(key(3), store.Header{Seq: 9}) // the newest counts, whichever generation has an older one
	h.drop(key(4))
	for n, want := range map[byte]uint64{1: 0, 2: 0, 3: 9, 4: 0, 5: 5} {
		if got, known := h.get(key(n)); got.Seq != want || known != (want != 0) {
			t.Errorf("row %d: seq %d, known %v; want %d", n, got.Seq, known, want)
		}
	}
	if len(h.young)+len(h.old) > 4 {
		t.Errorf("remembers %d and %d, want 2 in each generation", len(h.young), len(h.old))
	}
}
