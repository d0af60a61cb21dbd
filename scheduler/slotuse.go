package scheduler

import "github.com/kinesin-io/kinesin/internal/limit"

// slotUse is what one loop has of the slots of its group. Only the loop uses it.
type slotUse struct {
	group  *exclusiveGroup // nil: none counts
	waiter limit.SlotWaiter
	used   int  // by tasks in flight, also without a group
	taken  int  // in this round, and no task has got them yet
	asked  bool // in this round
}

func (u *slotUse) isLimited() bool { return u.group != nil }

// change notes that a task in flight holds a slot from now on, or no longer does.
func (u *slotUse) change(before, after bool) {
	switch {
	case before == after:
	case after:
		u.used++
		if u.taken > 0 {
			u.taken--
		} else if u.group != nil {
			u.group.Use(u.waiter.Class, 1)
		}
	default:
		u.used--
		if u.group != nil {
			u.group.Free(u.waiter.Class, 1)
		}
	}
}

// join has another group count what is held; nil: none does.
func (u *slotUse) join(g *exclusiveGroup) {
	if u.group != nil {
		u.group.Leave(&u.waiter, u.used+u.taken)
	}
	if u.group, u.taken = g, 0; g != nil && u.used > 0 {
		g.Use(u.waiter.Class, u.used)
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
