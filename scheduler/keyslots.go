package scheduler

import (
	"slices"
	"sync"
	"time"
)

const (
	// keyTolerance is by how much starts of a key may come earlier than at even distances: so much of its
	// rate may start at once after a pause.
	keyTolerance = 100 * time.Millisecond
	// keyFollowsWithin is how soon a task has to be due so that the end of the one before it is awaited: the result of a
	// longer attempt may come a moment later.
	keyFollowsWithin = time.Second
	// keyUsesSweepMin is how many keys are remembered before unused ones are looked for and forgotten.
	keyUsesSweepMin = 1024
)

// keyLimits are a lambda's limits for the tasks of each limit key. The zero value limits nothing.
type keyLimits struct {
	atOnce int           // tasks that are enqueued or run; 0: any number
	every  time.Duration // between starts; 0: any
}

func keyLimitsOf(atOnce int32, rate float64) (l keyLimits) {
	l.atOnce = int(atOnce)
	if rate > 0 {
		l.every = max(1, time.Duration(float64(time.Second)/rate))
	}
	return l
}

func (l keyLimits) isSet() bool { return l != keyLimits{} }

// keySlots counts, for each limit key of a lambda, the tasks that are enqueued or run, and when the next one
// may start. All loops of the lambda in a process share it. It knows no rows: what holds a slot follows from
// what the loops have in flight. It is safe for concurrent use.
type keySlots struct {
	mu     sync.Mutex // guards what follows, and the fields of all waiters
	limits keyLimits
	inTurn bool // priorities have weights: none goes first
	keys   map[string]*keyUse
	swept  int // how many keys there were after those without use were forgotten
}

// keyUse is what is known of one key.
type keyUse struct {
	used    int          // slots
	next    tick         // theoretical arrival time of the next start, as in GCRA
	waiting []*keyWaiter // loops with tasks that got no slot
	unheard []*loop      // those that may not have heard yet that a task has ended
	follows tick         // when the task behind the newest one that took a slot is due
}

// keyTimes say when a task that takes a slot is due, and when the next one of its key is, from now on.
type keyTimes struct{ due, next time.Duration }

// keyWaiter is a loop that takes slots.
type keyWaiter struct {
	class uint8  // its priority
	wake  func() // must not block
	freed []string
}

func newKeySlots() *keySlots { return &keySlots{keys: map[string]*keyUse{}} }

// set sets the limits, and whether priorities have weights. It reports whether that changed anything.
func (s *keySlots) set(limits keyLimits, inTurn bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.limits == limits && s.inTurn == inTurn {
		return
	}
	s.limits, s.inTurn = limits, inTurn
	for key, u := range s.keys {
		u.next = 0
		s.wakeFor(key, u)
	}
}

// take takes a slot of a key, and a start at the time at which the task is due. If there is none, take says when to ask again;
// zero: when w is woken, because a slot is free.
func (s *keySlots) take(key string, now tick, in keyTimes, w *keyWaiter) (ok bool, again tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.use(key, now)
	if s.limits.atOnce > 0 && (u.used >= s.limits.atOnce || !s.inTurn && u.waitsBefore(w)) {
		u.add(w)
		for _, l := range u.unheard {
			notify(l.wake)
		}
		u.unheard = nil
		return false, 0
	}
	if u.next > now.Add(in.due) {
		return false, u.next
	}
	u.remove(w)
	u.used++
	u.follows = now.Add(in.next)
	s.countStart(u, now.Add(in.due))
	return true, 0
}

// countStart counts a start of a key. Any number of starts that were not asked for puts off the next one no longer than a
// single start does.
func (s *keySlots) countStart(u *keyUse, now tick) {
	if s.limits.every > 0 {
		u.next = min(max(u.next, now.Add(-keyTolerance)).Add(s.limits.every), now.Add(s.limits.every+keyTolerance))
	}
}

// started counts a start that was not asked for: that of a task whose worker was lost.
func (s *keySlots) started(key string, now tick) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.countStart(s.use(key, now), now)
}

// unstarted gives back a start that was taken and not made.
func (s *keySlots) unstarted(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.keys[key]; u != nil && u.next > 0 {
		u.next = u.next.Add(-s.limits.every)
	}
}

// hold counts a slot of a task that is enqueued or runs.
func (s *keySlots) hold(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use(key, 0).used++
}

// free gives a slot back, and wakes the loops that come next.
func (s *keySlots) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.keys[key]
	if u == nil {
		return
	}
	u.used--
	s.wakeFor(key, u)
}

// ended wakes a loop that was told of the end of a task, so that it gives the slot back: at once if others wait for one, or
// else when the next one does.
func (s *keySlots) ended(key string, l *loop) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch u := s.keys[key]; {
	case u == nil || len(u.waiting) > 0:
		notify(l.wake)
	case !slices.Contains(u.unheard, l):
		u.unheard = append(u.unheard, l)
	}
}

// isAwaited reports whether a task waits for a slot of a key, or probably will in a moment.
func (s *keySlots) isAwaited(key string, now tick) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.keys[key]
	return u != nil && (len(u.waiting) > 0 || s.limits.atOnce > 0 && u.used >= s.limits.atOnce && u.follows <= now.Add(keyFollowsWithin))
}

// unwait says that no task of a loop waits for a slot of a key any more. A slot of which the loop was told goes to others.
func (s *keySlots) unwait(key string, w *keyWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.keys[key]; u != nil {
		u.remove(w)
		s.wakeFor(key, u)
	}
}

// leave forgets a loop that ends, and the keys that nobody uses then.
func (s *keySlots) leave(w *keyWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, u := range s.keys {
		u.remove(w)
		s.wakeFor(key, u) // it may have been told, too
		if u.used <= 0 && len(u.waiting) == 0 && s.limits.every == 0 {
			delete(s.keys, key)
		}
	}
}

// freedOf returns the keys of which a waiter was told since the last call that they may have a free slot.
func (s *keySlots) freedOf(w *keyWaiter) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed := w.freed
	w.freed = nil
	return freed
}

// look returns how many slots of a key are used, and the limits.
func (s *keySlots) look(key string) (used int, limits keyLimits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.keys[key]; u != nil {
		used = u.used
	}
	return used, s.limits
}

// isFull reports whether no task of a key may start now.
func (s *keySlots) isFull(key string, now tick) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.keys[key]
	return u != nil && (s.limits.atOnce > 0 && u.used >= s.limits.atOnce || u.next > now)
}

// waits reports whether a loop waits for a slot of a key.
func (s *keySlots) waits(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.keys[key]
	return u != nil && len(u.waiting) > 0
}

// use returns the record of a key. Call with mu held.
func (s *keySlots) use(key string, now tick) *keyUse {
	u := s.keys[key]
	if u == nil {
		s.sweep(now)
		u = &keyUse{}
		s.keys[key] = u
	}
	return u
}

// sweep forgets the keys without use when there are twice as many as after the last time.
func (s *keySlots) sweep(now tick) {
	if now == 0 || len(s.keys) < 2*s.swept+keyUsesSweepMin {
		return
	}
	for key, u := range s.keys {
		if u.used <= 0 && len(u.waiting) == 0 && u.next <= now.Add(-keyTolerance) {
			delete(s.keys, key)
		}
	}
	s.swept = len(s.keys)
}

// wakeFor tells the loops that come next that a slot of a key may be free: that of the highest priority which waits, or all
// where priorities have weights. A loop that was told waits no longer. Call with mu held.
func (s *keySlots) wakeFor(key string, u *keyUse) {
	if s.limits.atOnce > 0 && u.used >= s.limits.atOnce {
		return
	}
	for len(u.waiting) > 0 {
		first := u.waiting[0]
		for _, w := range u.waiting {
			if w.class < first.class {
				first = w
			}
		}
		u.remove(first)
		first.freed = append(first.freed, key)
		first.wake()
		if !s.inTurn && s.limits.atOnce > 0 {
			return
		}
	}
}

// waitsBefore reports whether a loop of a higher priority waits for a slot.
func (u *keyUse) waitsBefore(w *keyWaiter) bool {
	return slices.ContainsFunc(u.waiting, func(other *keyWaiter) bool { return other.class < w.class })
}

func (u *keyUse) add(w *keyWaiter) {
	if !slices.Contains(u.waiting, w) {
		u.waiting = append(u.waiting, w)
	}
}

func (u *keyUse) remove(w *keyWaiter) {
	if i := slices.Index(u.waiting, w); i >= 0 {
		u.waiting = slices.Delete(u.waiting, i, i+1)
	}
}
