package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// The wall clock may be set while tasks are in flight. What waits for an instant of it, until it is due or
// its backoff is over, waits for the same instant. What was planned for a while from now, such as the next
// look at a task in flight, stays as far away as it was.

// graceMin is how large a step is after which workers have the time that they have after an outage, to be
// heard and to confirm their claims. Less is a small part of any timeout that counts from a stamp.
const graceMin = 2 * time.Second

// ClockStepped tells that the wall clock was set, and by how much, so that nobody sleeps through it. It may
// be called from anywhere, and does no I/O.
func (s *Scheduler) ClockStepped(by time.Duration) {
	for known := s.noted.Load(); !known.At.IsZero(); known = s.noted.Load() {
		next := *known
		next.At = next.At.Add(by) // else a step forward would look as if no scheduler had run meanwhile
		if s.noted.CompareAndSwap(known, &next) {
			break
		}
	}
	for _, l := range *s.loops.Load() {
		wake(l.poke)
	}
	for _, g := range *s.guests.all.Load() {
		wake(g.loop.poke)
	}
}

// readClock begins a round. The wall clock is read once in it, so that all of it counts by the same: if it
// was set since the last round, what was planned until then is planned anew. A suspension of the machine
// looks the same and needs the same.
func (l *loop) readClock() {
	wall, steady := clock.Both(l.s.Clock)
	basis := wall.Sub(steady)
	by := basis - l.basis
	l.basis = basis
	if by.Abs() >= clock.StepMin {
		l.shift(wall, by)
	}
	if by.Abs() >= graceMin {
		if steady >= l.stepped.Add(store.CallMax) {
			l.forward = 0
		}
		l.forward, l.stepped = max(0, l.forward+by), steady
	}
}

// now is what the wall clock shows, or would if it was not set in this round.
func (l *loop) now() task.Instant { return clock.Steady(l.s.Clock).Add(l.basis) }

// nowWithoutSteps is now less what the wall clock was set forward in the last store.CallMax: by it, no call
// that is under way looks older than it is.
func (l *loop) nowWithoutSteps() task.Instant {
	if clock.Steady(l.s.Clock) >= l.stepped.Add(store.CallMax) {
		return l.now()
	}
	return l.now().Add(-l.forward)
}

// shift plans anew after the wall clock was set. Reading begins at once.
func (l *loop) shift(now task.Instant, by time.Duration) {
	l.flight.shift(now, by)
	if d, delivers := l.firing.(*delivering); delivers {
		d.retries.shift(by)
	}
	l.look.next, l.look.retry = 0, 0
	if l.pass.since = min(l.pass.since, now); by < 0 {
		l.pass.begins = min(l.pass.begins, now.Add(l.pass.every))
	}
}

// shift moves when to look at what is in flight, but for what waits for its wake-up. A message that has
// become too old by the step is refused by whoever gets it: its task is looked at once.
func (l *flight) shift(now task.Instant, by time.Duration) {
	l.queue = nil
	l.byTime.Clear(false)
	for _, w := range l.byID {
		w.since = w.since.Add(by)
		switch {
		case w.parked:
		case !w.until.IsZero() && w.until <= now:
			w.at, w.rowAt = min(w.at, now), min(w.rowAt, now)
		default:
			w.at, w.rowAt = w.at.Add(by), w.rowAt.Add(by)
		}
		l.plan(w)
	}
}

// shift moves all entries.
func (l *lookahead) shift(by time.Duration) {
	var all []entry
	l.each(func(e entry) { all = append(all, e) })
	l.entries.Clear(false)
	for _, e := range all {
		e.at = e.at.Add(by)
		l.entries.ReplaceOrInsert(e)
	}
}

// isAhead reports whether a stamp was written before the wall clock was set back, or by a process whose clock
// is wrong. What is counted from it would last for as long as that is away.
func isAhead(stamp, now task.Instant) bool { return stamp > now.Add(task.ClockBound) }

// wakesAt is when a task wakes. What was sent or claimed at an instant that lies in the future is looked at
// now, because its wake-up was counted from there.
func wakesAt(t *task.Task, now task.Instant) task.Instant {
	if t.State == task.Enqueued && isAhead(t.Enqueued, now) || t.State.IsRunning() && isAhead(t.ClaimedAt, now) {
		return min(t.Wake, now)
	}
	return t.Wake
}
