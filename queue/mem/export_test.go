package mem

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// WokenAfterSend sends and says how many receivers that woke, before any of them ran.
func (d *Driver) WokenAfterSend(m queue.Message, beforeTheyRun func()) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	if err := d.send(&m, now, steady); err != nil {
		panic(err)
	}
	beforeTheyRun()
	woken := 0
	for s := d.lines[queue.NameFor(&m.Task)].first; s != nil; s = s.next {
		if s.waiter.woken {
			woken++
		}
	}
	return woken
}

// TryReceive is Receive that does not wait.
func (d *Driver) TryReceive(names []queue.Name, limit int, ahead time.Duration) []queue.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	return d.take(names, limit, ahead, d.clock.Now())
}

// TimersSet says how many waiting receivers of a queue keep time.
func (d *Driver) TimersSet(name queue.Name) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	set := 0
	for s := d.lines[name].first; s != nil; s = s.next {
		if s.waiter.armed != 0 {
			set++
		}
	}
	return set
}

// Held says what is kept: lines and pages of messages.
func (d *Driver) Held() (lines, pages int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines), len(d.slots.pages)
}

// Heap is the order of messages, alone.
type Heap struct{ entries }

// Push adds one and reports whether it is the earliest now.
func (h *Heap) Push(at task.Instant, arrival uint64) bool {
	return h.push(entry{at: at, arrival: arrival})
}

// Pop removes the earliest.
func (h *Heap) Pop() (task.Instant, uint64) {
	e := h.pop()
	return e.at, e.arrival
}
