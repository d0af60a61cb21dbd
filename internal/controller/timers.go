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
