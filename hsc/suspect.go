package hsc

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// suspectFromLease returns the suspect that another process, or an earlier one, wrote on the lease.
func suspectFromLease(l *lease.Lease, steady task.Instant) suspectState {
	return suspectState{id: l.Suspect, claimed: true, began: steady, ends: steady.Add(task.QuarantineMin), readAt: steady}
}

func isBlamed(m queue.Message) bool { return queue.NameFor(&m.Task).Class == queue.Blamed }

// isProven reports whether an attempt has run for so long that it is not expected to take down its process. An attempt that
// began in the future shows that the clock was set back, and counts as proven.
func isProven(began, now task.Instant) bool {
	return now >= began.Add(task.QuarantineMin) || began > now.Add(task.QuarantineMin)
}

// hasWaited reports whether a task was enqueued at least d ago. It is true for a task that was enqueued in the future,
// because the clock was set back since.
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

// backOff has the process take no blamed task for d. Call with mu held.
func (s *session) backOff(steady task.Instant, d time.Duration) {
	s.suspectsAfter = max(s.suspectsAfter, steady.Add(d))
}

// backingOff reports whether the process takes no blamed task for now. After a quarantine it serves others
// for as long as that took. Call with mu held.
func (s *session) backingOff(steady task.Instant) bool { return steady < s.suspectsAfter }

// isReserved reports whether the process is about to get this blamed task.
func (s *session) isReserved(id task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspect.id == id && !s.suspect.claimed
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

// suspectClaimed notes that the claim of the reserved suspect, if that is id, was decided.
func (s *session) suspectClaimed(id task.ID, ends task.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.id == id && !s.suspect.claimed {
		s.suspect.claimed, s.suspect.ends = true, ends
	}
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

// accepts returns which tasks the process accepts now. Call with mu held.
func (s *session) accepts(steady task.Instant) accepted {
	a := accepted{anything: !s.inQuarantine(), suspects: s.suspect.id.IsZero()}
	if a.blamed = a.suspects && !s.backingOff(steady); a.suspects && !a.blamed {
		a.backoff = s.suspectsAfter.Sub(steady)
	}
	return a
}

func (s *session) isInQuarantine() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inQuarantine()
}

// notePolled notes attempts that were claimed by a call: no stream has them. It returns false if the call is over.
func (s *session) notePolled(ctx context.Context, won []delivery, now task.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false
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
	return true
}

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
	// provenWaitMax bounds the wait until a process has no young attempts. Attempts that are claimed when the wait
	// begins are old enough after half of it.
	provenWaitMax = 2 * task.QuarantineMin
	// quarantineLookEvery is the interval at which a process is checked for the end of its quarantine.
	quarantineLookEvery = 250 * time.Millisecond
	// polledMax bounds the attempts that are remembered for claims without a stream; beyond it old ones are
	// forgotten.
	polledMax = 2 * ClaimMax
)
