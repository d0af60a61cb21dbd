package mem

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// entry is the place of a waiting message in the order.
type entry struct {
	at      task.Instant // hidden until then: its due time, or the end of a release's delay
	arrival uint64
	since   task.Instant // by clock.Steady: when it was due and waited
	message *message
}

func (e entry) before(other entry) bool {
	if e.at != other.at {
		return e.at < other.at
	}
	return e.arrival < other.arrival
}

// entries is a binary heap with the earliest on top. container/heap would cost an allocation and three
// indirect calls for each message.
type entries []entry

// push adds e and reports whether it is the earliest.
func (h *entries) push(e entry) bool {
	*h = append(*h, e)
	all := *h
	i := len(all) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(all[parent]) {
			break
		}
		all[i] = all[parent]
		i = parent
	}
	all[i] = e
	return i == 0
}

// pop removes and returns the earliest.
func (h *entries) pop() entry {
	all := *h
	top, last := all[0], all[len(all)-1]
	all = all[:len(all)-1]
	*h = all
	if len(all) > 0 {
		all.sink(last)
	}
	return top
}

// sink puts e in its place, starting from the free place on top.
func (h entries) sink(e entry) {
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if right := child + 1; right < len(h) && h[right].before(h[child]) {
			child = right
		}
		if !h[child].before(e) {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = e
}

// oldest returns for how long the oldest due message has waited.
func (h entries) oldest(now, steady task.Instant) time.Duration {
	earliest := steady
	for i := range h {
		if h[i].at <= now {
			earliest = min(earliest, h[i].since)
		}
	}
	return steady.Sub(earliest)
}
