package controller

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// waitMax is how long a task may wait for a slot here before it is given back, because other workers may have
// free ones.
const waitMax = 50 * time.Millisecond

// takeSlot gives an attempt its slot; false when it has to wait for one, or for the lease to be confirmed.
// Call with mu held.
func (s *session) takeSlot(a *attempt, now time.Duration) bool {
	if a.group.running >= a.group.slots || s.unconfirmed {
		a.state = waiting
		a.group.waiting = append(a.group.waiting, a)
		s.setAlarm(a, now+waitMax)
		return false
	}
	a.group.running++
	s.running++
	s.busy = true
	a.state = running
	a.start = now
	a.startedAt = max(s.serverNow(), a.due) // by the server's clock it is due
	a.ctx = s.handlerContext(a)
	if at := a.nextAlarm(); at != forever {
		s.setAlarm(a, at)
	}
	return true
}

func (s *session) nextWaiting(g *group, now clock.Readings) *attempt {
	if len(g.waiting) == 0 || g.running >= g.slots || s.draining || !s.holdsLocked(now) || s.unconfirmed {
		return nil
	}
	next := g.waiting[0]
	g.waiting = g.waiting[1:]
	s.takeSlot(next, now.Mono)
	return next
}

// withdraw takes an attempt that does not run off the timeline and out of the wait for a slot. Call with mu
// held.
func (s *session) withdraw(a *attempt) {
	s.timeline.Remove(a)
	if a.state == early {
		s.dues[a.due] = without(s.dues[a.due], a)
		if len(s.dues[a.due]) == 0 {
			delete(s.dues, a.due)
		}
	}
	if a.state == waiting {
		a.group.waiting = without(a.group.waiting, a)
	}
}

// without returns a copy without one attempt.
func without(attempts []*attempt, a *attempt) []*attempt {
	if i := slices.Index(attempts, a); i >= 0 {
		return slices.Concat(attempts[:i], attempts[i+1:])
	}
	return attempts
}
