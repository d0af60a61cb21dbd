package mem

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// WokenAfterSend sends and returns how many receivers were woken, before any of them ran.
func (d *Driver) WokenAfterSend(m queue.Message, beforeTheyRun func()) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	if err := d.send(&m, now, steady); err != nil {
		panic(err)
	}
	beforeTheyRun()
	woken := 0
	for _, w := range d.lanes[queue.NameFor(&m.Task)].waiters {
		if w.woken {
			woken++
		}
	}
	return woken
}

// TryReceive receives without waiting.
func (d *Driver) TryReceive(names []queue.Name, limit int, ahead time.Duration) []queue.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	return d.take(names, limit, ahead, d.clock.Now())
}

// TimersSet returns how many waiting receivers of a queue have set their timer.
func (d *Driver) TimersSet(name queue.Name) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	set := 0
	for _, w := range d.lanes[name].waiters {
		if w.armed != 0 {
			set++
		}
	}
	return set
}

// Held returns the number of lanes, and of messages that were received.
func (d *Driver) Held() (lanes, received int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lanes), len(d.received)
}

// Heap exports the heap of entries.
type Heap struct{ entries }

// Push adds an entry and reports whether it is the earliest.
func (h *Heap) Push(at task.Instant, arrival uint64) bool {
	return h.push(entry{at: at, arrival: arrival})
}

// Pop removes and returns the earliest.
func (h *Heap) Pop() (task.Instant, uint64) {
	e := h.pop()
	return e.at, e.arrival
}
