package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

func attemptOf(row *task.Task) attempt { return attempt{row.ID, row.Attempt} }

func newSession(l *lease.Lease) *session {
	return &session{
		worker: l.Worker, lease: l.Length, terms: *l, assigned: map[task.ID]*assignment{}, running: map[task.ID]uint32{}, attend: l.Attend,
		polls: map[*poll]bool{}, polled: map[task.ID]task.Instant{}, namedOf: map[uint32]bool{},
	}
}

// end returns when the lease runs out, as far as is known here, by clock.Steady.
func (s *session) end() task.Instant { return task.Instant(s.ends.Load()) }

// holdsLease reports whether the lease has not run out, as far as is known here.
func (s *session) holdsLease(c clock.Clock) bool { return clock.Steady(c) < s.end() }

// noteLease notes the lease as it was read or written; one that was read earlier changes nothing.
func (s *session) noteLease(l *lease.Lease) {
	for end := int64(l.HoldsUntil()); ; {
		have := s.ends.Load()
		if have >= end || s.ends.CompareAndSwap(have, end) {
			return
		}
	}
}

func (s *session) isLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// current returns the worker's stream, nil when there is none here.
func (s *session) current() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

// saidWhatItHolds reports whether the worker has named here what it holds, on its stream or with a claim.
func (s *session) saidWhatItHolds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream != nil || s.named != nil
}

// pollAgain ends the Receive calls under way, so that all slot groups choose their queues again. Call with mu
// held.
func (s *session) pollAgain() {
	if s.stream == nil {
		return
	}
	for _, g := range s.stream.groups {
		g.pollAgain()
	}
}

// free frees the slot for the next task. Call with mu held.
func (a *assignment) free() {
	if a.freed {
		return
	}
	a.freed = true
	if a.group != nil {
		a.group.used--
		wake(a.group.changed)
	}
}

// received frees the slot because the result is here, though it is not yet stored. Call with mu held.
func (a *assignment) received() {
	if !a.freed && a.group != nil {
		a.unstored = true
		a.group.unstored++
	}
	a.free()
}

// settle ends the assignment: its result is stored, or there will be none. Call with mu held.
func (a *assignment) settle() {
	a.free()
	if a.unstored {
		a.unstored = false
		a.group.unstored--
		wake(a.group.changed)
	}
}

// find returns the assignment of an attempt, nil when there is none. Call with mu held.
func (s *session) find(a attempt) *assignment {
	if had := s.assigned[a.id]; had != nil && had.row.Attempt == a.number {
		return had
	}
	return nil
}

// assign adds an assignment, whose slot is taken; an earlier attempt of the same task is over. If that very
// attempt is assigned already, it frees the slot again and returns false. Call with mu held.
func (s *session) assign(a *assignment) bool {
	if had := s.assigned[a.row.ID]; had != nil {
		if had.row.Attempt == a.row.Attempt {
			a.free()
			return false
		}
		had.settle()
	}
	s.assigned[a.row.ID] = a
	return true
}

// unassign forgets attempts that have ended.
func (s *session) unassign(attempts []attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ended := range attempts {
		if a := s.find(ended); a != nil {
			a.settle()
			delete(s.assigned, ended.id)
		}
	}
}

// withdraw takes back deliveries that were not sent, and returns their rows. Call with mu held.
func (s *session) withdraw(unsent []delivery) (rows []task.Task) {
	for _, d := range unsent {
		if s.assigned[d.row.ID] == d.assignment {
			d.settle()
			delete(s.assigned, d.row.ID)
			rows = append(rows, *d.row)
		}
	}
	return rows
}

// withdrawAll takes back all attempts that have no result, and returns their rows.
func (s *session) withdrawAll() (rows []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.assigned {
		if !a.freed {
			rows = append(rows, *a.row)
		}
		a.settle()
	}
	clear(s.assigned)
	return rows
}

// missing returns the assigned attempts, claimed a while ago, that the worker did not name: it may never have
// got them.
func (s *session) missing(named []attempt, now task.Instant) []attempt {
	isNamed := make(map[task.ID]bool, len(named))
	for _, a := range named {
		isNamed[a.id] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []attempt
	for id, a := range s.assigned {
		if !isNamed[id] && !a.freed && claimedBefore(a.row, now, task.ClaimTimeout) {
			missing = append(missing, attemptOf(a.row))
		}
	}
	return missing
}

// hasUnreported reports whether the worker got attempts of which it has said nothing yet.
func (s *session) hasUnreported() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.assigned {
		if a.sent {
			return true
		}
	}
	return false
}

// inQuarantine reports whether the process takes nothing because of a blamed task. Call with mu held.
func (s *session) inQuarantine() bool { return !s.suspect.id.IsZero() && !s.suspect.ended }

// claimedBefore reports whether a claim is so old. It is true for one that is stamped in the future, because
// the clock was set back since.
func claimedBefore(t *task.Task, now task.Instant, age time.Duration) bool {
	return max(t.ClaimedAt, t.HeldUntil()) <= now.Add(-age) || t.ClaimedAt > now.Add(task.ClockBound)
}

// invalidate has the next heartbeat read a row.
func (s *session) invalidate(id task.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
}

// invalidateAll has the next heartbeat read all rows.
func (s *session) invalidateAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reviewAt = 0
}

// noteRunning notes attempts whose rows say that they run, and whose cancel nobody requested.
func (s *session) noteRunning(attempts []attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attempts {
		s.running[a.id] = a.number
	}
}

// wasNotified reports whether the lease asks, for the first time here, that the worker's rows be read. Then
// the next review reads them all.
func (s *session) wasNotified(l *lease.Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attend == l.Attend {
		return false
	}
	s.attend, s.reviewAt = l.Attend, 0
	return true
}

func owns(worker string, a attempt, row *task.Task) bool {
	return runs(worker, row) && row.Attempt == a.number
}

func idsOf(attempts []attempt) []task.ID {
	ids := make([]task.ID, len(attempts))
	for i, a := range attempts {
		ids[i] = a.id
	}
	return ids
}

// confirmAfter is how long after its claim an attempt that a heartbeat names is confirmed. Most have ended by
// then, or were reported as started. A claim is given up only after a heartbeat that came twice as long after
// it.
const confirmAfter = task.ClaimTimeout / 2

// reviewEvery is how often a heartbeat reads the rows of all attempts that it names. In between it reads only
// the rows of attempts that are not known to run, unless the lease asks for all. So a heartbeat costs one
// write for each process and next to nothing for each task.
const reviewEvery = 5 * time.Minute

func runs(worker string, row *task.Task) bool {
	return row.State.IsRunning() && row.Worker == worker
}

// pollAgain ends the Receive under way, so that the group's loop looks again at what it may claim. Call with
// session.mu held.
func (g *slotGroup) pollAgain() {
	if g.cancelReceive != nil {
		g.cancelReceive()
	}
	wake(g.changed)
}
