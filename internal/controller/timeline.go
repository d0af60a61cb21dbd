package controller

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
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

// setAlarm sets an alarm, and wakes the timer loop if it would sleep too long. Call with mu held.
func (s *session) setAlarm(a *attempt, at time.Duration) {
	s.timeline.set(a, at)
	if at < s.wakesAt {
		s.wakesAt = at
		wake(s.timerChanged)
	}
}

// forever is a wait without an end.
const forever = time.Duration(1<<63 - 1)

// rearm sets a timer for a wait that was computed since the stamp was taken, or stops it for a wait without
// an end.
func rearm(t clock.Timer, from clock.Stamp, wait time.Duration) {
	if wait == forever {
		t.Stop()
		return
	}
	clock.ResetFrom(t, from, wait)
}

// wake leaves a value in a channel of capacity one, for a loop that waits on it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
