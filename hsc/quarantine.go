package hsc

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// A blamed task begins in quarantine (docs/adr/0025): beside it nothing runs that began less than
// task.QuarantineMin ago, and nothing begins before the task ends or its quarantine does. So if its process
// is lost, it was the task.

const (
	// makeRoomAfter is how long a blamed task waits for a process that happens to have no young attempts,
	// such as one that was just started again; then the next one that has a slot for it takes nothing else
	// until it has none.
	makeRoomAfter = time.Second
	// blamedAgain is how long a process that cannot take a blamed task now asks for none: those that wait are
	// not to be received and put back all the time, before what others wait for.
	blamedAgain = 250 * time.Millisecond
	// clearLookEvery is how often it is looked whether that is so.
	clearLookEvery = 20 * time.Millisecond
	// clearWaitMax bounds the wait. Attempts that are claimed at its beginning are old enough after half of
	// it.
	clearWaitMax = 2 * task.QuarantineMin
	// openLookEvery is how often a process that takes nothing is looked at: whether it may take something
	// again.
	openLookEvery = 250 * time.Millisecond
	// lentMax bounds the attempts that are remembered for claims without a stream; beyond it old ones are
	// forgotten.
	lentMax = 2 * ClaimMax
)

// apart chooses what of the messages is claimed together: one of a blamed task alone, or all others. The rest
// goes back. With alone the process takes nothing else from now on, and the caller owes it a suspectDone
// unless the claim is decided.
func (s *Service) apart(ctx context.Context, sess *session, messages []queue.Message, byCall bool) (chosen []queue.Message, alone bool) {
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
		case byCall && hasWaited(t, now, clearWaitMax) && !sess.isClear(0, now):
			chosen = append(chosen, messages[i]) // calls that are too short to make room in: it runs beside others, which proves nothing
		case s.mayClose(t) && sess.mayMakeRoom(t, now) && sess.reserveSuspect(t.ID, steady):
			s.putBack(ctx, slices.Concat(chosen, blamed, messages[i+1:]), 0)
			return messages[i : i+1], true
		default:
			blamed = append(blamed, messages[i])
		}
	}
	sess.restFor(steady, blamedAgain)
	s.putBack(ctx, blamed, putBackDelay)
	return chosen, false
}

// mayClose reports whether one more of the processes that have a stream here for the task's lambda may take
// nothing else for a while: half of them at a time, so that what is under no suspicion is not held up, or the
// only one.
func (s *Service) mayClose(t *task.Task) bool {
	entry := s.Catalog.ByRef(t.Partition.Lambda)
	if entry == nil {
		return false
	}
	all := map[*session]bool{}
	closed := 0
	for _, at := range (*s.seats.byLambda.Load())[entry.Name] {
		if all[at.stream.sess] {
			continue
		}
		all[at.stream.sess] = true
		if at.stream.sess.isClosed() {
			closed++
		}
	}
	return closed < max(len(all)/2, 1)
}

func isBlamed(m queue.Message) bool { return queue.NameFor(&m.Task).Class == queue.Blamed }

// mayMakeRoom reports whether the process may be closed for a blamed task: it has room for it, or it is time
// to make some.
func (s *session) mayMakeRoom(t *task.Task, now task.Instant) bool {
	return hasWaited(t, now, makeRoomAfter) || s.isClear(0, now)
}

// hasWaited reports whether a task was enqueued so long ago. One that was enqueued in the future has: the
// clock was set back since.
func hasWaited(t *task.Task, now task.Instant, d time.Duration) bool {
	return now >= t.Enqueued.Add(d) || t.Enqueued > now.Add(task.ClockBound)
}

// isClear reports whether the process runs nothing, and is about to get nothing, that could take it down as a
// new attempt can; own are the slots that the caller has taken.
func (s *session) isClear(own int, now task.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := -own
	if s.stream != nil {
		for _, g := range s.stream.groups {
			taken += g.used
		}
	}
	for _, h := range s.hands {
		if h.freed {
			continue
		}
		if !isProven(max(h.row.ClaimedAt, h.row.Due), now) {
			return false
		}
		if h.group != nil {
			taken--
		}
	}
	for _, at := range s.lent {
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

// awaitClear waits until the process is clear, which it will be since it takes nothing; own are the caller's
// slots.
func (s *Service) awaitClear(ctx context.Context, sess *session, own int) bool {
	began := clock.Mono(s.Clock)
	for !sess.isClear(own, s.Clock.Now()) {
		if clock.Mono(s.Clock)-began >= clearWaitMax || clock.Sleep(ctx, s.Clock, clearLookEvery) != nil {
			return false
		}
	}
	return true
}

// awaitOpen waits while the process takes nothing because of a blamed task, and opens it when the quarantine
// is over.
func (s *Service) awaitOpen(ctx context.Context, sess *session) {
	if clock.Sleep(ctx, s.Clock, openLookEvery) != nil {
		return
	}
	id, over := sess.quarantineOver(clock.Steady(s.Clock))
	if !over {
		return
	}
	// The name comes off the lease first: what begins beside the task from now on may be what takes the
	// process down.
	if err := s.Leases.DropSuspect(context.WithoutCancel(ctx), sess.worker, id); err != nil {
		s.Hooks.failed("end a quarantine", err)
		return
	}
	sess.open(id)
}

// closed reports whether the process takes nothing because of a blamed task. Call with mu held.
func (s *session) closed() bool { return !s.suspect.IsZero() && !s.opened }

func (s *session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed()
}

// quarantineOver is the blamed task for which the process is closed and need not be any more.
func (s *session) quarantineOver(steady task.Instant) (task.ID, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspect, s.closed() && s.claimed && steady >= s.until
}

// open lets the process take others again beside the blamed task that it runs on.
func (s *session) open(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect == id {
		s.opened = true
		s.pollAnewLocked()
	}
}

// rests reports whether the process takes no blamed task for now: it was closed, and is to be open for others
// for as long. Call with mu held.
func (s *session) rests(steady task.Instant) bool { return steady < s.restUntil }

// rest has the process take no blamed task for some time. Call with mu held.
func (s *session) rest(steady task.Instant, d time.Duration) {
	s.restUntil = max(s.restUntil, steady.Add(d))
}

func (s *session) restFor(steady task.Instant, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest(steady, d)
}

// lend notes attempts that were claimed by a call: no stream has them in hand.
func (s *session) lend(won []delivery, now task.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent == nil {
		s.lent = map[task.ID]task.Instant{}
	}
	if len(s.lent) > lentMax {
		for id, at := range s.lent {
			if isProven(at, now) {
				delete(s.lent, id)
			}
		}
	}
	for _, d := range won {
		s.lent[d.hand.row.ID] = max(now, d.hand.row.Due)
	}
}
