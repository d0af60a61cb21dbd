package hsc

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// A blamed task begins in quarantine (docs/adr/0025): beside it nothing runs that began less than
// task.QuarantineMin ago, and nothing begins before the task ends or its quarantine does. So if its process
// is lost, it was the task.

const (
	// forceAfter is how long a blamed task waits for a process that happens to have no young attempts, such
	// as one that has just started. Then the next process with a slot for it takes nothing else until it has
	// none.
	forceAfter = time.Second
	// suspectPause is how long a process that cannot take a blamed task now asks for none: otherwise it would
	// receive and put back the same messages all the time, before messages that others wait for.
	suspectPause = 250 * time.Millisecond
	// provenLookEvery is the interval at which a process is checked for young attempts.
	provenLookEvery = 20 * time.Millisecond
	// provenWaitMax bounds the wait for that. Attempts that are claimed at its beginning are old enough after
	// half of it.
	provenWaitMax = 2 * task.QuarantineMin
	// quarantineLookEvery is the interval at which a process is checked for the end of its quarantine.
	quarantineLookEvery = 250 * time.Millisecond
	// polledMax bounds the attempts that are remembered for claims without a stream; beyond it old ones are
	// forgotten.
	polledMax = 2 * ClaimMax
)

// suspectState is the one blamed task that a process runs or is about to get. The zero suspectState is none.
type suspectState struct {
	id      task.ID
	claimed bool         // its claim was decided
	began   task.Instant // when the quarantine began, by clock.Steady
	ends    task.Instant // when the quarantine ends, by clock.Steady; known once it is claimed
	ended   bool         // the quarantine is over: others are taken beside it
	readAt  task.Instant // when it was read from the lease, by clock.Steady; 0: it was reserved here
}

// suspectFromLease returns the suspect that another process, or an earlier one, wrote on the lease.
func suspectFromLease(l *lease.Lease, steady task.Instant) suspectState {
	return suspectState{id: l.Suspect, claimed: true, began: steady, ends: steady.Add(task.QuarantineMin), readAt: steady}
}

// accepted is what a process accepts at the moment.
type accepted struct {
	anything, suspects, blamed bool
	// backoff is how long it accepts no blamed task at most; zero: until something changes.
	backoff time.Duration
}

// accepts returns what the process accepts. Call with mu held.
func (s *session) accepts(steady task.Instant) accepted {
	a := accepted{anything: !s.inQuarantine(), suspects: s.suspect.id.IsZero()}
	if a.blamed = a.suspects && !s.backingOff(steady); a.suspects && !a.blamed {
		a.backoff = s.suspectsAfter.Sub(steady)
	}
	return a
}

// inQuarantine reports whether the process takes nothing because of a blamed task. Call with mu held.
func (s *session) inQuarantine() bool { return !s.suspect.id.IsZero() && !s.suspect.ended }

func (s *session) isInQuarantine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inQuarantine()
}

// backingOff reports whether the process takes no blamed task for now. After a quarantine it serves others
// for as long as that took. Call with mu held.
func (s *session) backingOff(steady task.Instant) bool { return steady < s.suspectsAfter }

// backOff has the process take no blamed task for d. Call with mu held.
func (s *session) backOff(steady task.Instant, d time.Duration) {
	s.suspectsAfter = max(s.suspectsAfter, steady.Add(d))
}

// reserveSuspect makes id the one blamed task of the process, which takes nothing else from now on. It
// returns false when there is another one, or the process backs off.
func (s *session) reserveSuspect(id task.ID, steady task.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspect.id.IsZero() || s.backingOff(steady) {
		return false
	}
	s.suspect = suspectState{id: id, began: steady}
	s.pollAgain()
	return true
}

// isReserved reports whether the process is about to get this blamed task.
func (s *session) isReserved(id task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspect.id == id && !s.suspect.claimed
}

// suspectClaimed notes that the claim of the reserved suspect, if that is id, was decided.
func (s *session) suspectClaimed(id task.ID, ends task.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.id == id && !s.suspect.claimed {
		s.suspect.claimed, s.suspect.ends = true, ends
	}
}

// runningSuspect returns the suspect that the process should run, zero for none. A suspect whose claim is
// under way does not count, because no row and no worker knows of it yet. Whether one that was read from the
// lease is claimed is known only after task.ClaimTimeout.
func (s *session) runningSuspect(steady task.Instant) task.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspect.claimed || steady < s.suspect.readAt.Add(task.ClaimTimeout) {
		return task.ID{}
	}
	return s.suspect.id
}

// suspectDone notes that the process does not run this suspect any more, if it ever did. The id comes off the
// lease with the lease's next change.
func (s *Service) suspectDone(sess *session, id task.ID) {
	steady := clock.Steady(s.Clock)
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.suspect.id != id || id.IsZero() {
		return
	}
	if !sess.suspect.ended {
		sess.backOff(steady, steady.Sub(sess.suspect.began))
	}
	sess.suspect = suspectState{}
	delete(sess.polled, id)
	sess.pollAgain()
	s.Leases.ClearSuspect(sess.worker, id)
}

// admissible returns the messages that may be claimed now, for which it takes slots of the group, and puts
// the others back. For a call the group is nil.
func (c *claimer) admissible(ctx context.Context, g *slotGroup, messages []queue.Message) []queue.Message {
	messages, exclusive := c.svc.separate(ctx, c.sess, messages, g == nil)
	n := c.sess.takeSlots(g, len(messages), exclusive)
	c.svc.putBack(ctx, messages[n:], 0)
	if !exclusive {
		return messages[:n]
	}
	own := n
	if g == nil {
		own = 0
	}
	if n == 1 && c.svc.awaitProven(ctx, c.sess, own) {
		return messages
	}
	c.svc.suspectDone(c.sess, messages[0].Task.ID)
	c.svc.putBack(ctx, messages[:n], putBackDelay)
	c.sess.returnSlots(g, n)
	return nil
}

// separate chooses which of the messages are claimed together: one of a blamed task alone, or all others. It
// puts the rest back. If exclusive is true the process is in quarantine, and the caller must call suspectDone
// unless the claim is decided.
func (s *Service) separate(ctx context.Context, sess *session, messages []queue.Message, byCall bool) (chosen []queue.Message, exclusive bool) {
	if !slices.ContainsFunc(messages, isBlamed) {
		return messages, false
	}
	now, steady := clock.Both(s.Clock)
	var blamed []queue.Message
	for i := range messages {
		t := &messages[i].Task
		switch {
		case !isBlamed(messages[i]):
			chosen = append(chosen, messages[i])
		case byCall && hasWaited(t, now, provenWaitMax) && !sess.allProven(0, now):
			// Calls are too short to wait for young attempts: it runs beside others, which proves nothing.
			chosen = append(chosen, messages[i])
		case s.mayQuarantine(t) && (hasWaited(t, now, forceAfter) || sess.allProven(0, now)) && sess.reserveSuspect(t.ID, steady):
			s.putBack(ctx, slices.Concat(chosen, blamed, messages[i+1:]), 0)
			return messages[i : i+1], true
		default:
			blamed = append(blamed, messages[i])
		}
	}
	sess.mu.Lock()
	sess.backOff(steady, suspectPause)
	sess.mu.Unlock()
	s.putBack(ctx, blamed, putBackDelay)
	return chosen, false
}

// mayQuarantine reports whether one more of the processes that serve the task's lambda here may go into
// quarantine: half of them at a time, or the only one, so that other tasks are not held up.
func (s *Service) mayQuarantine(t *task.Task) bool {
	entry := s.Catalog.ByRef(t.Partition.Lambda)
	if entry == nil {
		return false
	}
	all, closed := map[*session]bool{}, 0
	for _, sub := range s.subscriptions.of(entry) {
		sess := sub.stream.sess
		if all[sess] {
			continue
		}
		all[sess] = true
		if sess.isInQuarantine() {
			closed++
		}
	}
	return closed < max(len(all)/2, 1)
}

func isBlamed(m queue.Message) bool { return queue.NameFor(&m.Task).Class == queue.Blamed }

// hasWaited reports whether a task was enqueued so long ago. It is true for one that was enqueued in the
// future, because the clock was set back since.
func hasWaited(t *task.Task, now task.Instant, d time.Duration) bool {
	return now >= t.Enqueued.Add(d) || t.Enqueued > now.Add(task.ClockBound)
}

// allProven reports whether the process runs no young attempt, which could take it down, and is about to get
// none. own is how many slots the caller has taken.
func (s *session) allProven(own int, now task.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := -own
	if s.stream != nil {
		for _, g := range s.stream.groups {
			taken += g.used
		}
	}
	for _, a := range s.assigned {
		if a.freed {
			continue
		}
		if !isProven(max(a.row.ClaimedAt, a.row.Due), now) {
			return false
		}
		if a.group != nil {
			taken--
		}
	}
	for _, at := range s.polled {
		if !isProven(at, now) {
			return false
		}
	}
	return taken <= 0
}

// isProven reports whether an attempt that began then has run for long enough. One that begins in the future
// shows that the clock was set back.
func isProven(began, now task.Instant) bool {
	return now >= began.Add(task.QuarantineMin) || began > now.Add(task.QuarantineMin)
}

// awaitProven waits until the process runs no young attempt; false when it gives up. own is how many slots
// the caller has taken.
func (s *Service) awaitProven(ctx context.Context, sess *session, own int) bool {
	began := clock.Mono(s.Clock)
	for !sess.allProven(own, s.Clock.Now()) {
		if clock.Mono(s.Clock)-began >= provenWaitMax || clock.Sleep(ctx, s.Clock, provenLookEvery) != nil {
			return false
		}
	}
	return true
}

// awaitQuarantineEnd waits for a moment, and ends the quarantine of the process when its time is over.
func (s *Service) awaitQuarantineEnd(ctx context.Context, sess *session) {
	if clock.Sleep(ctx, s.Clock, quarantineLookEvery) != nil {
		return
	}
	steady := clock.Steady(s.Clock)
	sess.mu.Lock()
	id, over := sess.suspect.id, sess.inQuarantine() && sess.suspect.claimed && steady >= sess.suspect.ends
	sess.mu.Unlock()
	if !over {
		return
	}
	// The id comes off the lease first: what begins beside the task from now on may take the process down.
	if err := s.Leases.DropSuspect(context.WithoutCancel(ctx), sess.worker, id); err != nil {
		s.Hooks.Failed("end a quarantine", err)
		return
	}
	sess.mu.Lock()
	defer sess.mu.Unlock()
	if sess.suspect.id == id {
		sess.suspect.ended = true
		sess.pollAgain()
	}
}

// notePolled notes attempts that were claimed by a call: no stream has them.
func (s *session) notePolled(won []delivery, now task.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.polled == nil {
		s.polled = map[task.ID]task.Instant{}
	}
	if len(s.polled) > polledMax {
		for id, at := range s.polled {
			if isProven(at, now) {
				delete(s.polled, id)
			}
		}
	}
	for _, d := range won {
		s.polled[d.row.ID] = max(now, d.row.Due)
	}
}
