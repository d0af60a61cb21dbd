package hsc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// attempt names one try of one task.
type attempt struct {
	id     task.ID
	number uint32
}

func attemptOf(row *task.Task) attempt { return attempt{row.ID, row.Attempt} }

// session is what this process knows of one worker process.
type session struct {
	worker string
	lease  time.Duration
	terms  lease.Lease // as the worker registered; only what no heartbeat changes is read

	ends atomic.Int64 // task.Instant of the lease's end by clock.Steady, as last known here

	mu       sync.Mutex // guards what follows and the slot groups of the stream; never held across I/O
	stream   *stream    // the newest, nil when it has ended
	lost     bool       // the lease has ended
	assigned map[task.ID]*assignment

	suspect       suspectState
	suspectsAfter task.Instant             // no blamed task is taken before, by clock.Steady
	polled        map[task.ID]task.Instant // attempts that were claimed by calls, and when they began

	running  map[task.ID]uint32 // attempts that are known to run, and whose cancel nobody requested
	reviewAt task.Instant       // when all rows are read again; zero: with the next heartbeat
	attend   uint64             // of the lease, as last seen
}

func newSession(l *lease.Lease) *session {
	return &session{
		worker: l.Worker, lease: l.Length, terms: *l, assigned: map[task.ID]*assignment{}, running: map[task.ID]uint32{}, attend: l.Attend,
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

// assignment is an attempt that the worker has or is about to get. Its fields are guarded by session.mu once
// it is in session.assigned.
type assignment struct {
	row      *task.Task // as last stored here; what it points to never changes
	group    *slotGroup // whose slot it takes; nil for none
	sent     bool       // it may have reached the worker
	freed    bool       // its slot is free: its result was received, or it is over
	unstored bool       // it is counted in group.unstored
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
