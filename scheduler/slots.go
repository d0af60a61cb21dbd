package scheduler

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/task"
)

// A concurrency quota bounds how many tasks of a lambda run at once, over all servers. The owner of the
// lambda counts them: one process owns all its partitions, which are a group, and it alone starts their
// tasks. A task holds a slot while it is enqueued or runs; the sets of what is in flight tell the group how
// many there are, so no slot is kept anywhere, and none can be lost. See docs/adr/0039.

// slotsAgain is when a partition asks again for slots whose group may start nothing yet.
const slotsAgain = 250 * time.Millisecond

// exclusiveGroup counts the slots of a group, as far as this process knows.
type exclusiveGroup struct {
	*quota.Slots

	// slotCount numbers the last count of the slots in use that the loops of the group are to make.
	slotCount atomic.Uint64
	// opened is since when the others have counted this process as a member, if it may start tasks since then
	// because it knows all that is in flight and no other process starts any; nil: it may not.
	opened atomic.Pointer[task.Instant]
}

// isOpen reports whether this process may start tasks of the group: it is open, and the others cannot have
// taken this process for gone since.
func (g *exclusiveGroup) isOpen(h Handover) bool {
	since := g.opened.Load()
	if since == nil {
		return false
	}
	counted, ok := h.Counted()
	return ok && counted == *since
}

// slotUse is what one loop has of the slots of its group. Only the loop uses it.
type slotUse struct {
	group  *exclusiveGroup // nil: none counts
	waiter quota.SlotWaiter
	held   int  // by tasks in flight, also without a group
	taken  int  // in this round, and no task has got them yet
	asked  bool // in this round
}

func (u *slotUse) isLimited() bool { return u.group != nil }

// change notes that a task in flight holds a slot from now on, or no longer does.
func (u *slotUse) change(before, after bool) {
	switch {
	case before == after:
	case after:
		u.held++
		if u.taken > 0 {
			u.taken--
		} else if u.group != nil {
			u.group.Use(u.waiter.Class, 1)
		}
	default:
		u.held--
		if u.group != nil {
			u.group.Free(u.waiter.Class, 1)
		}
	}
}

// join has another group count what is held; nil: none does.
func (u *slotUse) join(g *exclusiveGroup) {
	if u.waitNot(); u.group != nil {
		u.group.Free(u.waiter.Class, u.held+u.taken)
	}
	if u.group, u.taken = g, 0; g != nil && u.held > 0 {
		g.Use(u.waiter.Class, u.held)
	}
}

// begin begins a round, which has not asked for slots yet.
func (u *slotUse) begin() { u.asked = false }

// waitNot says that the loop waits for no slot.
func (u *slotUse) waitNot() {
	if u.group != nil {
		u.group.Take(&u.waiter, 0)
	}
}

// rest ends a round: it gives back what it has taken and no task has got. A round that did not ask has
// nothing that waits.
func (u *slotUse) rest() {
	if !u.asked {
		u.waitNot()
	}
	if u.taken > 0 {
		u.group.Free(u.waiter.Class, u.taken)
		u.taken = 0
	}
}

// exclusiveGroups are the groups of the partitions that are fired here. Run replaces them.
type exclusiveGroups map[task.Partition]*exclusiveGroup

// isLimited reports whether a concurrency quota bounds how many tasks of a partition's lambda run.
func (s *shared) isLimited(p task.Partition) bool {
	if s.Concurrency == nil {
		return false
	}
	_, limited := s.Concurrency.Group(p)
	return limited
}

// exclusiveGroupOf returns the group of a partition that is fired here and has one; else nil.
func (s *shared) exclusiveGroupOf(p task.Partition) *exclusiveGroup {
	groups := *s.exclusiveGroups.Load()
	if len(groups) == 0 {
		return nil
	}
	name, _ := s.Concurrency.Group(p)
	return groups[name]
}

// startsLimited reports whether this process starts the tasks of a partition with a concurrency quota.
func (s *shared) startsLimited(p task.Partition) bool {
	g := s.exclusiveGroupOf(p)
	return g != nil && g.isOpen(s.Handover)
}

// quotasChanged returns a channel that is closed when the concurrency quotas may change.
func (s *shared) quotasChanged() <-chan struct{} {
	if s.Concurrency == nil {
		return nil
	}
	return s.Concurrency.Changed()
}

// followSlots notes at the begin of a round whether its tasks need slots, and from whom. Without any
// concurrency quota it costs an atomic load.
func (l *loop) followSlots() {
	var g *exclusiveGroup
	if l.limited = !l.delivers && l.isLimited(l.partition); l.limited && !l.foreign {
		g = l.exclusiveGroupOf(l.partition)
	}
	if u := &l.inFlight.slots; u.group != g {
		u.join(g)
		l.group.Store(g)
	}
	l.followSlotCount(g)
}

// takeSlots takes up to want slots for what a round starts. Those that it does not use are given back when it
// ends.
func (l *loop) takeSlots(want int) (granted int, w quotaWait) {
	u := &l.inFlight.slots
	u.asked = true
	switch {
	case u.group == nil:
		return 0, quotaWait{again: l.now().Add(slotsAgain)} // an owner starts them, or this one will
	case !u.group.isOpen(l.Handover):
		u.waitNot()
		notify(l.slotsShut)
		return 0, quotaWait{again: l.now().Add(slotsAgain)}
	}
	known := int(max(0, min(l.inFlightLimit.left.Load(), math.MaxInt32))) // what is not remembered is not counted
	granted = u.group.Take(&u.waiter, min(want, known))
	u.taken += granted
	switch {
	case granted == known && known < want:
		w = quotaWait{again: l.now().Add(slotsAgain)} // it waits for room in memory, of which nobody tells
	case granted < want:
		w = quotaWait{again: l.now().Add(idleMax)} // the group wakes the loop before
	}
	return granted, w
}

// slotFreed wakes the loop of a partition, so that it hears of ended tasks, if others wait for their slots.
func (l *loop) slotFreed() {
	if g := l.group.Load(); g != nil && g.Waits() {
		notify(l.wake)
	}
}

// holdsSlot reports whether a task is enqueued or runs, as far as its row tells, or has a message without
// having a row.
func holdsSlot(t *task.Task) bool { return !isWaiting(t) || isUnstored(t) }

// isUnstored reports whether a task was sent that has no task row yet.
func isUnstored(t *task.Task) bool {
	return t.State == task.Scheduled && t.Attempt == 0 && !t.Enqueued.IsZero() && t.Enqueues == 0 && t.Wake > t.Due
}
