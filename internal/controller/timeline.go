package controller

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// StartedAfter is how long an attempt runs before its start is reported: the result
// of a shorter one says it too.
const StartedAfter = 200 * time.Millisecond

// timeline holds the attempts that something is to be done about at a time, as a
// binary heap by alarm. One timer serves them all.
type timeline []*attempt

func (t timeline) less(i, j int) bool { return t[i].alarm < t[j].alarm }

func (t timeline) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

func (t timeline) up(i int) bool {
	moved := false
	for parent := (i - 1) / 2; i > 0 && t.less(i, parent); parent = (i - 1) / 2 {
		t.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (t timeline) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t); child++ {
			if t.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

// set makes the alarm of an attempt ring at a monotonic time.
func (t *timeline) set(a *attempt, at time.Duration) {
	t.remove(a)
	a.alarm, a.place = at, len(*t)
	*t = append(*t, a)
	t.up(a.place)
}

// remove takes an attempt out, wherever it is.
func (t *timeline) remove(a *attempt) {
	i := a.place
	if i < 0 {
		return
	}
	last := len(*t) - 1
	t.swap(i, last)
	(*t)[last] = nil
	*t = (*t)[:last]
	a.place = -1
	if i < last && !t.up(i) {
		t.down(i)
	}
}

func (t *timeline) clear() {
	for _, a := range *t {
		a.place = -1
	}
	*t = nil
}

// next is the attempt whose alarm rings first, nil for none.
func (t timeline) next() *attempt {
	if len(t) == 0 {
		return nil
	}
	return t[0]
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

// alarmLocked sets an alarm, and wakes the keeper of time if it would sleep too long.
func (s *session) alarmLocked(a *attempt, at time.Duration) {
	s.timeline.set(a, at)
	if at < s.armed {
		s.armed = at
		poke(s.retime)
	}
}

// keepTime rings the alarms, and watches the lease while handlers run, until ctx ends.
func (s *session) keepTime(ctx context.Context) {
	timer := s.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		from := clock.StampOf(timer)
		rearm(timer, from, s.ring())
		select {
		case <-timer.C():
		case <-s.retime:
		case <-ctx.Done():
			return
		}
	}
}

// ring does what is due and returns how long to sleep.
func (s *session) ring() time.Duration {
	readings := clock.Read(s.cfg.Clock)
	s.mu.Lock()
	if !s.holdsLocked(readings) {
		s.armed = forever
		s.mu.Unlock()
		return forever
	}
	var starts []*attempt
	for a := s.timeline.next(); a != nil && a.alarm <= readings.Mono; a = s.timeline.next() {
		s.timeline.remove(a)
		if s.alarmRang(a, readings.Mono) {
			starts = append(starts, a)
		}
	}
	wait := s.sleepLocked(readings)
	s.mu.Unlock()
	for _, a := range starts {
		go s.execute(a)
	}
	return wait
}

// alarmRang does what an attempt's alarm was for; it reports whether its handler is to be started.
func (s *session) alarmRang(a *attempt, now time.Duration) (start bool) {
	switch a.state {
	case held:
		return s.occupyLocked(a, now)
	case running:
		s.runsOn(a, now)
	case ended:
		s.outbox.results = append(s.outbox.results, a)
		poke(s.outWake)
	case waiting:
		a.group.dismiss(a)
		a.end(Outcome{Kind: task.OutcomeReleased, Error: releasedBusy})
		s.report(a)
	}
	return false
}

// runsOn reports the start of an attempt that runs longer than a moment, and ends its context at its timeout.
func (s *session) runsOn(a *attempt, now time.Duration) {
	ran := now - a.start
	if !a.reported && ran >= StartedAfter {
		a.reported = true
		s.outbox.started = append(s.outbox.started, a)
		poke(s.outWake)
	}
	if a.work.Timeout > 0 && ran >= a.work.Timeout && !a.overdue {
		a.overdue = true
		a.stop(ErrTimeout)
	}
	if at, is := a.nextAlarm(); is {
		s.timeline.set(a, at)
	}
}

// nextAlarm is when something is to be done about a running attempt.
func (a *attempt) nextAlarm() (at time.Duration, is bool) {
	at = forever
	if !a.reported {
		at = a.start + StartedAfter
	}
	if a.work.Timeout > 0 && !a.overdue {
		at = min(at, a.start+a.work.Timeout)
	}
	return at, at != forever
}

// sleepLocked is how long the keeper of time may sleep: to the next alarm, and while
// handlers run, or did since the last time, no longer than the watch on the lease allows.
func (s *session) sleepLocked(now clock.Readings) time.Duration {
	wait := forever
	if a := s.timeline.next(); a != nil {
		wait = a.alarm - now.Mono
	}
	if s.running > 0 || s.busy {
		s.busy = s.running > 0
		wait = min(wait, s.length/watchShare, s.valid-now.Since(s.renewed))
	}
	s.armed = forever
	if wait != forever {
		s.armed = now.Mono + wait
	}
	return wait
}

// poke leaves a value in a channel of one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
