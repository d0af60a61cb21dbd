package pebble

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

// TestFreshIsNeverWrong puts ids whose times run ahead, lag behind and repeat, over many generations and some
// restarts. An id that is called absent may never have been put before.
func TestFreshIsNeverWrong(t *testing.T) {
	spared, asked := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		f, stored := newFresh(0, 8), int64(0)
		put := map[task.ID]bool{}
		var earlier []task.ID
		now := int64(1000)
		for range rapid.IntRange(1, 200).Draw(rt, "puts") {
			if rapid.IntRange(0, 100).Draw(rt, "restart") == 37 {
				f = newFresh(stored, 8)
			}
			now += rapid.SampledFrom([]int64{0, 0, 0, 0, 0, 1, 1, 1, 2, -1, -3, 100_000}).Draw(rt, "step")
			id := freshID(max(now, 1), rapid.IntRange(0, 3).Draw(rt, "random"))
			if len(earlier) > 0 && rapid.IntRange(0, 3).Draw(rt, "again") == 0 {
				id = rapid.SampledFrom(earlier).Draw(rt, "earlier")
			}
			earlier = append(earlier, id)
			if f.put(id, fingerprint(id, taskSpace)) {
				spared++
				if put[id] {
					rt.Fatalf("%s was put before", id)
				}
			} else {
				asked++
			}
			put[id] = true
			if bound, yes := f.outgrown(); yes {
				stored = bound
			}
		}
	})
	if spared < asked/10 {
		t.Errorf("%d look-ups spared, %d made: of little use", spared, asked)
	}
}

func freshID(ms int64, random int) (id task.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(ms)<<16|0x7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|uint64(random))
	return id
}

func TestFreshKnowsOnlyUUIDv7(t *testing.T) {
	f := newFresh(0, 8)
	id := freshID(1000, 1)
	id[6] = 0x80
	if f.put(id, 1) {
		t.Error("an id without a time was called absent")
	}
}

// TestFreshForgetsAMillisecondAsAWhole puts so many ids of one millisecond that the first are forgotten:
// nothing is known of that millisecond then.
func TestFreshForgetsAMillisecondAsAWhole(t *testing.T) {
	f := newFresh(0, 8)
	first := freshID(1000, 0)
	for n := range 4 * f.young.set.rowsMax() {
		f.put(freshID(1000, n), fingerprint(freshID(1000, n), taskSpace))
	}
	if f.put(first, fingerprint(first, taskSpace)) {
		t.Error("an id that was put before is called absent")
	}
}
