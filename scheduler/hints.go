package scheduler

import (
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Added is the hint that a wake-up row was stored. Hints may come from any goroutine, and for partitions of
// other processes; a hint of a task that is not due soon costs next to nothing.
func (s *Scheduler) Added(t *task.Task) {
	if p := s.firedOf(t.Partition); p != nil {
		s.tell(p, t, hintAdded, t.WakeRow.At, func(l *loop) bool { return l.buffer.covers(t.WakeRow.At) })
		return
	}
	if s.isDueBeforeOwnerReads(t, t.WakeRow.At) {
		s.foreign.hint(clock.Mono(s.Clock), t, hintAdded)
	}
}

// Awake is the hint that a stored task row has a wake-up that the scheduler should know: where its wake-up
// row is, or before that, if FiresWithin said so.
func (s *Scheduler) Awake(t *task.Task) {
	if p := s.firedOf(t.Partition); p != nil {
		at := t.Wake
		if t.Wake != t.WakeRow.At {
			at = 0 // only the loop knows of it
		}
		// A scan passes over the wake-up row of a task that an earlier hint has put in flight, so the loop is
		// told of what is due soon also where a read-ahead is still to come.
		s.tell(p, t, hintAwake, at, func(l *loop) bool { return at <= s.Clock.Now().Add(s.Window) || l.buffer.covers(at) })
		return
	}
	handedOver := t.Wake != t.WakeRow.At && s.foreign.has(t.Partition) // while the row was written
	if s.isLimited(t.Partition) {
		return // only its owner starts it
	}
	if handedOver || s.isDueBeforeOwnerReads(t, t.Wake) {
		s.foreign.hint(clock.Mono(s.Clock), t, hintAwake)
	}
}

// isDueBeforeOwnerReads reports whether a task of a foreign partition may be due before its owner knows it.
func (s *Scheduler) isDueBeforeOwnerReads(t *task.Task, at task.Instant) bool {
	return s.Foreign && t.State.IsWaiting() && at <= s.Clock.Now().Add(s.Window/2) && !s.isLimited(t.Partition)
}

// Enqueued is the hint that a task was stored as enqueued and its message is on its way.
func (s *Scheduler) Enqueued(t *task.Task) {
	if s.RetryBudget != nil {
		s.RetryBudget.Earn(t.Partition.Lambda, 1)
	}
	if p := s.firedOf(t.Partition); p != nil {
		s.tell(p, t, hintSent, 0, func(*loop) bool { return true })
	}
}

// PutBack is the hint that a claim met a task that a gate holds. hasRow says that its task row was stored as
// scheduled; otherwise it has none, and its message is gone.
func (s *Scheduler) PutBack(t *task.Task, hasRow bool) {
	kind := hintUnsent
	if hasRow {
		kind = hintPutBack
	}
	if p := s.firedOf(t.Partition); p != nil {
		s.tell(p, t, kind, 0, func(*loop) bool { return true })
	} else if s.Foreign && !s.isLimited(t.Partition) {
		s.foreign.hint(clock.Mono(s.Clock), t, kind)
	}
}

// Done is the hint that tasks need not be checked any more where they are: they have ended, or another
// wake-up row wakes them.
func (s *Scheduler) Done(rows []task.Task) {
	for i := range rows {
		if l := s.loopOf(rows[i].Partition); l != nil {
			l.inbox.addDone(doneRow{keyOf(&rows[i]), rows[i].WakeRow.Seq, rows[i].LimitKey})
			if rows[i].LimitKey != "" && l.limitsKeys.Load() {
				s.keySlotsOf(rows[i].Partition.Lambda).ended(rows[i].LimitKey, l)
			}
			l.slotFreed()
		}
	}
}

// FiresWithin reports whether this process acts on a task that wakes at an instant if Awake tells of it, although the task has
// no wake-up row there.
func (s *Scheduler) FiresWithin(p task.Partition, at task.Instant) bool {
	now := s.Clock.Now()
	if s.isLimited(p) && !s.startsLimited(p) {
		return false // its owner finds it by its wake-up row
	}
	if s.Fires(p) {
		return at <= now.Add(s.Window) && s.inFlightLimit.left.Load() > 0
	}
	return s.Foreign && at <= now.Add(s.Window/2) && s.foreign.accepts(p)
}
