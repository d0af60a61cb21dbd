package minheap_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kinesin-io/kinesin/internal/minheap"
)

type item struct {
	minheap.Place

	key int
}

func (i *item) Before(other *item) bool { return i.key < other.key }

// A heap does what a sorted list does, whatever is put, moved and taken out.
func TestHeapIsASortedList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h minheap.Heap[*item]
	var all []*item
	for range 20_000 {
		switch n := random.IntN(10); {
		case n < 4:
			i := &item{key: random.IntN(1000)}
			h.Put(i)
			all = append(all, i)
		case n < 6 && len(all) > 0:
			i := all[random.IntN(len(all))]
			i.key = random.IntN(1000)
			h.Put(i)
		case n < 8 && len(all) > 0:
			k := random.IntN(len(all))
			h.Remove(all[k])
			h.Remove(all[k])
			if all[k].InHeap() {
				t.Fatal("an item that was taken out is held")
			}
			all = slices.Delete(all, k, k+1)
		case len(all) > 0:
			i := h.Pop()
			if i.InHeap() {
				t.Fatal("an item that came out is held")
			}
			all = slices.DeleteFunc(all, func(o *item) bool { return o == i })
			for _, o := range all {
				if o.key < i.key {
					t.Fatalf("%d came out before %d", i.key, o.key)
				}
			}
		}
		if h.Len() != len(all) {
			t.Fatalf("%d items, want %d", h.Len(), len(all))
		}
		if len(all) > 0 && (!h.First().IsFirst() || h.First().key != slices.MinFunc(all, func(a, b *item) int { return a.key - b.key }).key) {
			t.Fatal("the first one is not the least")
		}
	}
	h.Clear()
	if h.Len() != 0 || slices.ContainsFunc(all, func(i *item) bool { return i.InHeap() }) {
		t.Error("items are held after Clear")
	}
}
