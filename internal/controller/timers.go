package controller

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// runTimers fires the alarms, and watches the lease while handlers run, until ctx ends.
func (s *session) runTimers(ctx context.Context) {
	timer := s.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		from := clock.StampOf(timer)
		rearm(timer, from, s.fireAlarms())
		select {
		case <-timer.C():
		case <-s.timerChanged:
		case <-ctx.Done():
			return
		}
	}
}

// fireAlarms does what is due and returns how long to sleep.
func (s *session) fireAlarms() time.Duration {
	readings := clock.Read(s.cfg.Clock)
	s.mu.Lock()
	if !s.holdsLocked(readings) {
		s.wakesAt = forever
		s.mu.Unlock()
		return forever
	}
	var starts []*attempt
	for a := s.timeline.next(); a != nil && a.alarm <= readings.Mono; a = s.timeline.next() {
		s.timeline.Remove(a)
		if s.fire(a, readings.Mono) {
			starts = append(starts, a)
		}
	}
	wait := s.sleepTime(readings)
	s.mu.Unlock()
	for _, a := range starts {
		go s.execute(a)
	}
	return wait
}

// fire does what the alarm of an attempt was set for, and reports whether its handler is to be started.
func (s *session) fire(a *attempt, now time.Duration) (start bool) {
	switch a.state {
	case early:
		delete(s.dues, a.due) // the others fire now
		return s.takeSlot(a, now)
	case running:
		s.checkRunning(a, now)
	case ended:
		s.outbox.results = append(s.outbox.results, a)
		wake(s.outboxReady)
	case waiting:
		s.withdraw(a)
		a.end(Outcome{Kind: task.OutcomeReleased, Error: releasedBusy})
		s.report(a)
	}
	return false
}

// checkRunning reports the start of an attempt that has run for a while, and ends its context at its timeout.
func (s *session) checkRunning(a *attempt, now time.Duration) {
	ran := now - a.start
	if !a.reported && ran >= StartedAfter {
		a.reported = true
		s.outbox.started = append(s.outbox.started, a)
		wake(s.outboxReady)
	}
	if a.timeout > 0 && ran >= a.timeout && !a.overdue {
		a.overdue = true
		a.ctx.end(ErrTimeout)
	}
	if at := a.nextAlarm(); at != forever {
		s.timeline.set(a, at)
	}
}

// sleepTime returns how long the timer loop may sleep: to the next alarm, and no longer than the watch on the
// lease allows while handlers run, or did since the last time. Call with mu held.
func (s *session) sleepTime(now clock.Readings) time.Duration {
	wait := forever
	if a := s.timeline.next(); a != nil {
		wait = a.alarm - now.Mono
	}
	if s.running > 0 || s.busy {
		s.busy = s.running > 0
		wait = min(wait, s.length/watchShare, s.valid-now.Since(s.renewed))
	}
	s.wakesAt = forever
	if wait != forever {
		s.wakesAt = now.Mono + wait
	}
	return wait
}

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
