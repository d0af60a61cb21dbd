package hsc

import (
	"context"
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

// hand is an attempt that the worker holds or is about to get. Its fields are guarded by session.mu
// once it is in session.hands.
type hand struct {
	row   *task.Task // as last stored here; what it points to never changes
	group *group     // whose slot it takes
	sent  bool       // it may have reached the worker
	freed bool       // its result was received: the slot is free, the row is not yet changed
	owed  bool       // counted in group.owed
}

// group is a slot group of one stream.
type group struct {
	lambdas   []string
	slots     int
	slotsOnly bool // no tasks beyond the slots

	waits atomic.Int64 // since when its pump waits for a message, in monotonic time; 0 while it does not

	// Guarded by session.mu.
	used      int
	owed      int // results that were received and are not yet stored
	pace      pace
	interrupt context.CancelFunc // ends the Receive under way; nil when there is none

	// changed holds one value when a slot came free or the queues to poll changed.
	changed chan struct{}
}

// owedMax bounds the results of a group that are received and not yet stored, beside one for each slot: a
// store that takes claims and no results must not fill the memories of both sides.
const owedMax = extraMax

// room is how many more tasks the group may get. Call with session.mu held.
func (g *group) room() int {
	if g.owed >= g.slots+owedMax {
		return 0
	}
	if g.slotsOnly {
		return g.slots - g.used
	}
	return g.slots + g.pace.extra(g.slots) - g.used
}

// pollAnew ends the Receive under way, so that the group's pump looks again at what it may claim. Call with
// session.mu held.
func (g *group) pollAnew() {
	if g.interrupt != nil {
		g.interrupt()
	}
	g.poke()
}

func (g *group) poke() { poke(g.changed) }

// session is what this process knows of one worker process.
type session struct {
	worker string
	lease  time.Duration

	ends atomic.Int64 // task.Instant of the lease's end by clock.Steady, as last known here

	mu      sync.Mutex // guards what follows and the groups of the stream; never held across I/O
	hands   map[task.ID]*hand
	suspect task.ID      // the blamed task in hand, or about to be; zero for none
	claimed bool         // it is not about to be: its claim was decided
	until   task.Instant // the end of its quarantine, by clock.Steady
	opened  bool         // that is over: others are taken beside it
	adopted task.Instant // when the suspect was read from the lease instead of being reserved here, by clock.Steady; 0: it was reserved
	stream  *stream      // the newest, nil when it has ended
	lost    bool         // the lease has ended

	since     task.Instant             // when the process was closed for the suspect, by clock.Steady
	restUntil task.Instant             // no blamed task is taken before, by clock.Steady
	lent      map[task.ID]task.Instant // attempts that were claimed by calls, and when they began

	known    map[task.ID]uint32 // attempts that run, as far as is known, and nobody wants to stop
	reviewAt task.Instant       // when all rows are read again; zero: with the next heartbeat
	attend   uint64             // of the lease, as it was last looked at
}

func newSession(l *lease.Lease) *session {
	return &session{
		worker: l.Worker, lease: l.Length, hands: map[task.ID]*hand{}, suspect: l.Suspect, claimed: true,
		known: map[task.ID]uint32{}, attend: l.Attend,
	}
}

// end is when the lease runs out, as far as is known here, by clock.Steady.
func (s *session) end() task.Instant { return task.Instant(s.ends.Load()) }

// isGood reports whether the lease has not run out, as far as is known here.
func (s *session) isGood(c clock.Clock) bool { return clock.Steady(c) < s.end() }

// renewed notes the lease as it was read or written; an older sight of it changes nothing.
func (s *session) renewed(l *lease.Lease) {
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

// lose notes that the lease has ended and returns the stream that is to end with it, if there is one.
func (s *session) lose() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	return s.stream
}

func (s *session) current() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream
}

// pollAnew interrupts the receiving of all groups, which then choose their queues again.
func (s *session) pollAnew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pollAnewLocked()
}

func (s *session) pollAnewLocked() {
	if s.stream == nil {
		return
	}
	for _, g := range s.stream.groups {
		g.pollAnew()
	}
}

// take reserves up to n free slots of a group; of a closed process only for what it is closed for, alone.
func (s *session) take(g *group, n int, alone bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed() != alone {
		return 0
	}
	n = min(n, max(g.room(), 0))
	g.used += n
	return n
}

// giveSlots returns slots that were taken and not used.
func (s *session) giveSlots(g *group, n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.used -= n
	g.poke()
}

// reserveSuspect makes id the one blamed task of the process, which takes nothing else from now on; false
// when there is another one, or the process was closed a moment ago.
func (s *session) reserveSuspect(id task.ID, steady task.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.suspect.IsZero() || s.rests(steady) {
		return false
	}
	s.suspect, s.claimed, s.adopted, s.opened, s.since = id, false, 0, false, steady
	s.pollAnewLocked()
	return true
}

// isReserved reports whether the process is about to get this blamed task.
func (s *session) isReserved(id task.ID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.suspect == id && !s.claimed
}

// suspectClaimed notes that the claim of the reserved suspect, if that is id, was decided.
func (s *session) suspectClaimed(id task.ID, until task.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect == id && !s.claimed {
		s.claimed, s.until = true, until
	}
}

// suspectDone notes that the process does not run this suspect any more, if it ever did.
func (s *session) suspectDone(id task.ID, steady task.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect != id || id.IsZero() {
		return false
	}
	if !s.opened {
		s.rest(steady, steady.Sub(s.since))
	}
	s.suspect = task.ID{}
	delete(s.lent, id)
	s.pollAnewLocked()
	return true
}

// suspectInHand is the suspect that the process should run, zero for none. One whose claim is under way does
// not count: no row and no worker knows of it yet. Of one that another process wrote on the lease nobody here
// knows whether it is, until it must have been decided.
func (s *session) suspectInHand(steady task.Instant) task.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.claimed || steady < s.adopted.Add(task.ClaimTimeout) {
		return task.ID{}
	}
	return s.suspect
}

// taking is what a process takes at the moment.
type taking struct {
	anything, suspects, blamed bool
	// rests is how long it takes no blamed task at most; zero: until something changes.
	rests time.Duration
}

func (s *session) takes(steady task.Instant) taking {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takesLocked(steady)
}

func (s *session) takesLocked(steady task.Instant) taking {
	t := taking{anything: !s.closed(), suspects: s.suspect.IsZero()}
	if t.blamed = t.suspects && !s.rests(steady); t.suspects && !t.blamed {
		t.rests = s.restUntil.Sub(steady)
	}
	return t
}

// free makes the slot of a hand free for the next task. Call with mu held.
func (h *hand) free() {
	if h.freed {
		return
	}
	h.freed = true
	if h.group != nil {
		h.group.used--
		h.group.poke()
	}
}

// result notes that the result of a hand is here: its slot is free, though the row is not yet changed. Call
// with mu held.
func (h *hand) result() {
	if !h.freed && h.group != nil {
		h.owed = true
		h.group.owed++
	}
	h.free()
}

// settle ends a hand: nothing is owed for it any more. Call with mu held.
func (h *hand) settle() {
	h.free()
	if h.owed {
		h.owed = false
		h.group.owed--
		h.group.poke()
	}
}

// drop forgets hands whose attempts have ended.
func (s *session) drop(attempts []attempt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attempts {
		if h := s.hands[a.id]; h != nil && h.row.Attempt == a.number {
			h.settle()
			delete(s.hands, a.id)
		}
	}
}

// unnamed lists attempts in hand, claimed a while ago, that the worker did not name: it may never have got
// them.
func (s *session) unnamed(running []attempt, now task.Instant) []attempt {
	named := make(map[task.ID]bool, len(running))
	for _, a := range running {
		named[a.id] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var missing []attempt
	for id, h := range s.hands {
		if !named[id] && !h.freed && claimedBefore(h.row, now, task.ClaimTimeout) {
			missing = append(missing, attempt{id, h.row.Attempt})
		}
	}
	return missing
}

// put adds a hand, whose slot is taken; an earlier attempt of the same task is over. It frees the slot again
// and returns false when that very attempt is in hand. Call with mu held.
func (s *session) put(h *hand) bool {
	if had := s.hands[h.row.ID]; had != nil {
		if had.row.Attempt == h.row.Attempt {
			h.free()
			return false
		}
		had.settle()
	}
	s.hands[h.row.ID] = h
	return true
}

// holdsUnreported reports whether the worker got attempts of which it has said nothing yet.
func (s *session) holdsUnreported() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hands {
		if h.sent {
			return true
		}
	}
	return false
}
