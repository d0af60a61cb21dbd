package limit

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/task"
)

// Concurrency bounds how many tasks of a lambda run at once.
type Concurrency struct {
	All        int                     // of all priorities together; 0: any number
	Priorities [task.PrioritiesMax]int // of each; 0: any number
	// Set is when the quota was set last, by the wall clock of the server that did; zero where no other
	// process starts tasks.
	Set task.Instant
}

// Slots counts how many tasks of a lambda run at once, and shares what its quota leaves out among those that
// wait: to higher priorities first, or by weights. A task holds a slot from its dispatch until its attempt
// has ended. Slots knows no task: who dispatches takes slots, and gives back each when its task has ended. It
// is safe for concurrent use.
type Slots struct {
	waits atomic.Bool // somebody waits

	mu      sync.Mutex // guards what follows, and the fields of all waiters
	limits  Concurrency
	weights []uint16
	used    [task.PrioritiesMax]int
	waiting map[*SlotWaiter]struct{}
	unheard map[*SlotWaiter]struct{} // those that may not know yet that a task of theirs has ended
	turns   turns
	order   uint64 // of the next waiter that is served
}

// SlotWaiter is one that takes slots for a priority.
type SlotWaiter struct {
	Class uint8
	Wake  func() // called, with a lock held, when it may take some; it must not block

	wants int    // that it was not granted
	order uint64 // those that were served longer ago are woken first
}

// NewSlots returns slots without a limit.
func NewSlots() *Slots {
	return &Slots{waiting: map[*SlotWaiter]struct{}{}, unheard: map[*SlotWaiter]struct{}{}}
}

// Set sets the limits, and the weights of the priorities; nil: higher ones go first.
func (s *Slots) Set(c Concurrency, weights []uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits, s.weights = c, weights
	s.wakeNext()
}

// Take takes up to want slots. A waiter that gets fewer is woken when it may take more; one that wants none
// waits no longer.
func (s *Slots) Take(w *SlotWaiter, want int) (granted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, w)
	if want > 0 {
		granted = s.mine(w.Class, want)
		s.used[w.Class] += granted
	}
	if granted > 0 {
		s.order++
		w.order = s.order
	}
	if w.wants = want - granted; w.wants > 0 {
		s.waiting[w] = struct{}{}
		for other := range s.unheard {
			other.Wake()
		}
		clear(s.unheard)
	}
	s.wakeNext()
	return granted
}

// Ended says that a task has ended whose slot a waiter is to give back: it is woken at once if somebody waits for a slot, or
// else when somebody does.
func (s *Slots) Ended(w *SlotWaiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting) > 0 {
		w.Wake()
		return
	}
	s.unheard[w] = struct{}{}
}

// Leave gives back the slots of a waiter that takes none any more, and wakes whoever comes next.
func (s *Slots) Leave(w *SlotWaiter, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, w)
	delete(s.unheard, w)
	s.used[w.Class] -= count
	s.wakeNext()
}

// Use counts tasks that hold slots which nobody took: they were found running.
func (s *Slots) Use(class uint8, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[class] += count
}

// Free gives slots back, and wakes whoever comes next.
func (s *Slots) Free(class uint8, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[class] -= count
	s.wakeNext()
}

// Used returns how many slots each priority holds.
func (s *Slots) Used() [task.PrioritiesMax]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Waits reports whether anybody waits for a slot.
func (s *Slots) Waits() bool { return s.waits.Load() }

// IsAwaited reports whether the end of a task of a priority is awaited: somebody waits for a slot, or would.
func (s *Slots) IsAwaited(class uint8) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, one := s.left(class)
	return len(s.waiting) > 0 || min(all, one) == 0
}

// left returns how many slots are free of the lambda, and of one of its priorities. The caller holds mu.
func (s *Slots) left(class uint8) (all, one int) {
	all, one = math.MaxInt, math.MaxInt
	if s.limits.All > 0 {
		total := 0
		for _, n := range s.used {
			total += n
		}
		all = max(0, s.limits.All-total)
	}
	if limit := s.limits.Priorities[class]; limit > 0 {
		one = max(0, limit-s.used[class])
	}
	return all, one
}

// mine returns how many slots one of a priority gets, besides what is for others that wait. The caller holds
// mu.
func (s *Slots) mine(class uint8, want int) (granted int) {
	all, one := s.left(class)
	if want = min(want, one); want <= 0 || all == 0 {
		return 0
	}
	if all == math.MaxInt || len(s.waiting) == 0 {
		return min(want, all)
	}
	others, isNew := s.wanted(class)
	if len(s.weights) > 0 {
		if isNew {
			s.turns.join(class)
		}
		return s.turns.give(class, want, all, others, s.weights)
	}
	for _, n := range others[:class] {
		all -= n
	}
	return max(0, min(want, all))
}

// wanted returns how many slots each priority waits for and could have; isNew says that none of this one
// waits. The caller holds mu.
func (s *Slots) wanted(class uint8) (wants [task.PrioritiesMax]int, isNew bool) {
	isNew = true
	for w := range s.waiting {
		wants[w.Class] += w.wants
		isNew = isNew && w.Class != class
	}
	for c := range wants {
		_, one := s.left(uint8(c))
		wants[c] = min(wants[c], one)
	}
	return wants, isNew
}

// wakeNext wakes those that come next, as many as there are free slots for. The caller holds mu.
func (s *Slots) wakeNext() {
	s.waits.Store(len(s.waiting) > 0)
	woken := map[*SlotWaiter]struct{}{}
	for len(woken) < len(s.waiting) {
		next := s.next(woken)
		if next == nil {
			return
		}
		woken[next] = struct{}{}
		next.Wake()
	}
}

// next returns who is woken after those that were; nil: nobody, since no slot is left. The caller holds mu.
func (s *Slots) next(woken map[*SlotWaiter]struct{}) (next *SlotWaiter) {
	promised := 0
	var ones [task.PrioritiesMax]int
	for w := range woken {
		promised += w.wants
		ones[w.Class] += w.wants
	}
	for w := range s.waiting {
		if _, was := woken[w]; was {
			continue
		}
		all, one := s.left(w.Class)
		if all <= promised || one <= ones[w.Class] {
			continue
		}
		if next == nil || s.comesBefore(w, next) {
			next = w
		}
	}
	return next
}

// comesBefore reports whether a waiter is woken before another one. The caller holds mu.
func (s *Slots) comesBefore(a, b *SlotWaiter) bool {
	if a.Class == b.Class {
		return a.order < b.order
	}
	if len(s.weights) > 0 && s.turns.had[a.Class] != s.turns.had[b.Class] {
		return s.turns.had[a.Class] < s.turns.had[b.Class]
	}
	return a.Class < b.Class
}

// turns shares starts out between the priorities of a lambda that has weights: the next start is of the
// priority that waits and has had least for its weight. One that does not wait saves nothing up.
type turns struct {
	had  [task.PrioritiesMax]float64 // starts by weight
	last float64                     // what the priority had that got the latest start, before it
}

// join has a priority wait that did not.
func (t *turns) join(class uint8) { t.had[class] = max(t.had[class], t.last) }

// next gives a start to one of the priorities that wait; false: none does.
func (t *turns) next(waiting *[task.PrioritiesMax]int, weights []uint16) (class uint8, ok bool) {
	for c := range waiting {
		if waiting[c] > 0 && (!ok || t.had[c] < t.had[class]) {
			class, ok = uint8(c), true
		}
	}
	if ok {
		waiting[class]--
		t.last = t.had[class]
		t.had[class] += share(weights, class)
	}
	return class, ok
}

// give gives starts that have come to a caller of a priority, and returns how many of those that it wants.
// The others that wait keep their turns: they get theirs when they ask.
func (t *turns) give(class uint8, want, ready int, others [task.PrioritiesMax]int, weights []uint16) (granted int) {
	ahead := *t
	others[class] += want
	for ; ready > 0 && granted < want; ready-- {
		if got, ok := ahead.next(&others, weights); ok && got == class {
			granted++
			t.had[class], t.last = ahead.had[class], ahead.last
		}
	}
	return granted
}

// share returns what a start counts of a priority.
func share(weights []uint16, class uint8) float64 {
	if int(class) < len(weights) {
		return 1 / float64(max(1, weights[class]))
	}
	return 1
}
