package hsc

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// A blamed task begins in quarantine (docs/adr/0025): beside it nothing runs that began less than
// task.QuarantineMin ago, and nothing begins before the task ends or its quarantine does. So if its process
// is lost, it was the task.

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
	for _, one := range s.Waiting.Of(entry) {
		w, ours := one.(waiting)
		if !ours || all[w.stream.sess] {
			continue
		}
		all[w.stream.sess] = true
		if w.stream.sess.isInQuarantine() {
			closed++
		}
	}
	return closed < max(len(all)/2, 1)
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
