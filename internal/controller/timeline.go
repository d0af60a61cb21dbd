package controller

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/minheap"
)

// timeline holds the attempts that have an alarm, the earliest first. One timer serves them all.
type timeline struct{ minheap.Heap[*attempt] }

// Before orders attempts by their alarms.
func (a *attempt) Before(other *attempt) bool { return a.alarm < other.alarm }

// set makes the alarm of an attempt fire at a monotonic time.
func (t *timeline) set(a *attempt, at time.Duration) {
	a.alarm = at
	t.Put(a)
}

// next returns the attempt whose alarm fires first, nil for none.
func (t *timeline) next() *attempt {
	if t.Len() == 0 {
		return nil
	}
	return t.First()
}

// forever is a wait without an end.
const forever = time.Duration(1<<63 - 1)

// wake leaves a value in a channel of capacity one, for a loop that waits on it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
