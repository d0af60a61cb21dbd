package clock

import "container/heap"

// timerHeap holds the armed timers, the next to fire first.
type timerHeap []*virtualTimer

func (h *timerHeap) add(t *virtualTimer)    { heap.Push(h, t) }
func (h *timerHeap) remove(t *virtualTimer) { heap.Remove(h, t.index) }

// Len is part of heap.Interface, as are the other exported methods.
func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].order < h[j].order
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push appends.
func (h *timerHeap) Push(x any) {
	t := x.(*virtualTimer) //nolint:errcheck,forcetypeassert // only add pushes
	t.index = len(*h)
	*h = append(*h, t)
}

// Pop removes the last.
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
