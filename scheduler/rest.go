package scheduler

import "github.com/kinesin-io/kinesin/task"

// Where time stands still while something is to be done (sdktest), somebody has to know that a due task is held: by a
// gate, a quota, a limit or an earlier occurrence of its cron. The loop of its partition knows all of that. It has
// looked at everything and waits, and says until when; what is due and was not dispatched then is held.

// rest is what a loop that waits says of itself.
type rest struct {
	look uint64       // the newest that it has made
	acts task.Instant // when it may dispatch something without being told to; never: it will not
}

// Look has the loop of a partition look again at what is due from an instant on and at what is in flight, as if its hints
// had been lost. It returns the number of the look; 0 if the partition has no loop.
func (s *Scheduler) Look(p task.Partition, from task.Instant) uint64 {
	l := s.loopOf(p)
	if l == nil {
		return 0
	}
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	in := &l.inbox
	in.look++
	in.checkAll = true
	if in.missed.IsZero() || from < in.missed {
		in.missed = from
	}
	notify(l.wake)
	return in.look
}

// Rests reports whether the loop of a partition waits, with nothing to do before it acts, and which look it has made.
func (s *Scheduler) Rests(p task.Partition) (look uint64, acts task.Instant, ok bool) {
	l := s.loopOf(p)
	if l == nil {
		return 0, 0, false
	}
	r := l.resting.Load()
	if r == nil || len(l.wake) > 0 || l.inbox.isUrgent() {
		return 0, 0, false
	}
	return r.look, r.acts, true
}

// isUrgent is news.isUrgent.
func (in *inbox) isUrgent() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.news.isUrgent()
}

// attending is what Run waits for.
type attending struct {
	again task.Instant // when a group of partitions is looked at that is to be opened; never: there is none
	told  []<-chan struct{}
}

// Attends reports whether Run waits, with nothing to do before it looks again at a group that is to be opened; never, if
// there is none.
func (s *Scheduler) Attends() (again task.Instant, ok bool) {
	w := s.attending.Load()
	if w == nil || len(s.slotsShut)+len(s.warmed) > 0 {
		return 0, false
	}
	for _, c := range w.told {
		select {
		case <-c:
			return 0, false
		default:
		}
	}
	return w.again, w.again > s.Clock.Now()
}
