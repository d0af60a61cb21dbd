package scheduler

import (
	"math"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A concurrency quota bounds how many tasks of a lambda run at once, over all servers. The owner of the
// lambda counts them: one process owns all its partitions, which are a group, and it alone starts their
// tasks. A task holds a slot while it is enqueued or runs; the sets of what is in flight tell the group how
// many there are, so no slot is kept anywhere, and none can be lost. See docs/adr/0039.

// slotsAgain is when a partition asks again for slots whose group may start nothing yet.
const slotsAgain = 250 * time.Millisecond

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
		l.attending.Store(nil) // Run does not rest any more
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

// slotFreed has the loop of a partition hear of an ended task when others wait for its slot.
func (l *loop) slotFreed() {
	if g := l.group.Load(); g != nil {
		g.Ended(&l.inFlight.slots.waiter)
	}
}

// followSlotCount begins a count if the group asks for one.
func (l *loop) followSlotCount(g *exclusiveGroup) {
	c := &l.slotCount
	if g == nil {
		*c = slotCount{}
		l.stats.slotCount.Store(0)
		return
	}
	number := g.slotCount.Load()
	if number == c.number || number == l.stats.slotCount.Load() {
		return
	}
	now := l.now()
	*c = slotCount{number: number, cursor: cursor{underWay: true, through: now.Add(l.Window)}}
	l.inFlight.checkAll(now) // what it knows may have ended elsewhere
}
