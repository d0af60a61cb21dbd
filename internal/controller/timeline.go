package controller

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Before orders attempts by their alarms. Of those that have the same one, which are due at one instant, the
// one comes first that the server sent first: its queues hand out higher priorities first.
func (a *attempt) Before(other *attempt) bool {
	return a.alarm < other.alarm || a.alarm == other.alarm && a.number < other.number
}

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

// holdUntil has an attempt start at a monotonic time, together with all that are due at the same instant: at the
// earliest time that the server gave for any, since it gives how long to wait, and messages come more and less
// late. So they start in the order in which the server sent them. Call with mu held.
func (s *session) holdUntil(a *attempt, at time.Duration) {
	same := s.dues[a.due]
	if len(same) > 0 {
		at = min(at, same[0].alarm)
	}
	same = append(same, a)
	s.dues[a.due] = same
	for _, one := range same {
		if one == a || one.alarm != at {
			s.setAlarm(one, at)
		}
	}
}

// StartedAfter is how long an attempt runs before its start is reported: the result of a shorter one says it
// too.
const StartedAfter = 200 * time.Millisecond

// nextAlarm returns when to look at a running attempt again; forever for never.
func (a *attempt) nextAlarm() time.Duration {
	at := forever
	if !a.reported {
		at = a.start + StartedAfter
	}
	if a.timeout > 0 && !a.overdue {
		at = min(at, a.start+a.timeout)
	}
	return at
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
