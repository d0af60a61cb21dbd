// Package minheap is a priority queue whose items know that they are in it, so that one in the middle can be
// moved or taken out. It is container/heap with types.
package minheap

import (
	"container/heap"
	"iter"
	"slices"
)

// Item is a pointer to a struct that embeds a Place.
type Item[T any] interface {
	// Before reports whether the item comes out before another one.
	Before(other T) bool
	place() *Place
}

// Place is where an item is in its Heap. The zero value is in none. An item is in one Heap at a time.
type Place struct{ number int } // one more than its index, 0 in no heap

func (p *Place) place() *Place { return p }

var _ interface{ place() *Place } = (*Place)(nil) // items have it by embedding, which linters do not see

// InHeap reports whether the item is in a Heap.
func (p *Place) InHeap() bool { return p.number > 0 }

// IsFirst reports whether the item is the one that comes out next.
func (p *Place) IsFirst() bool { return p.number == 1 }

// Heap holds items, of which the first one comes out first. The zero value is empty. It has no lock.
type Heap[T Item[T]] struct{ items order[T] }

// Len returns how many items there are.
func (h *Heap[T]) Len() int { return len(h.items) }

// First returns the item that comes out next; it panics if there is none.
func (h *Heap[T]) First() T { return h.items[0] }

// Put adds an item, or moves it after a change of what Before compares.
func (h *Heap[T]) Put(item T) {
	if p := item.place(); p.InHeap() {
		heap.Fix(&h.items, p.number-1)
		return
	}
	heap.Push(&h.items, item)
}

// Remove takes an item out, if it is there.
func (h *Heap[T]) Remove(item T) {
	if p := item.place(); p.InHeap() {
		heap.Remove(&h.items, p.number-1)
	}
}

// Pop takes the first item out; it panics if there is none.
func (h *Heap[T]) Pop() T {
	first := h.items[0]
	heap.Remove(&h.items, 0)
	return first
}

// All yields all items in no order. They must not be put or taken out meanwhile.
func (h *Heap[T]) All() iter.Seq[T] { return slices.Values(h.items) }

// Clear takes all items out.
func (h *Heap[T]) Clear() {
	for _, item := range h.items {
		item.place().number = 0
	}
	h.items = nil
}

// order implements heap.Interface.
type order[T Item[T]] []T

func (o order[T]) Len() int           { return len(o) }
func (o order[T]) Less(i, k int) bool { return o[i].Before(o[k]) }

func (o order[T]) Swap(i, k int) {
	o[i], o[k] = o[k], o[i]
	o[i].place().number, o[k].place().number = i+1, k+1
}

// Push adds an item at the end.
func (o *order[T]) Push(x any) {
	item := x.(T) //nolint:forcetypeassert,errcheck // only Put pushes
	*o = append(*o, item)
	item.place().number = len(*o)
}

// Pop takes the item at the end.
func (o *order[T]) Pop() any {
	last := len(*o) - 1
	item := (*o)[last]
	clear((*o)[last:])
	*o = (*o)[:last]
	item.place().number = 0
	return item
}
