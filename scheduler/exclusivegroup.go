package scheduler

import (
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

// exclusiveGroup counts the slots of an exclusive group, as far as this process knows.
type exclusiveGroup struct {
	*limit.Slots

	// slotCount numbers the newest count of the slots in use that the loops of the group are to make.
	slotCount atomic.Uint64
	// opened is since when the others have counted this process as a member, if it may start tasks since then
	// because it knows all that is in flight and no other process starts any; nil: it may not.
	opened atomic.Pointer[task.Instant]
}

// isOpen reports whether this process may start tasks of the group: the group is open, and the others cannot have taken this
// process for gone since it was opened.
func (g *exclusiveGroup) isOpen(h Handover) bool {
	since := g.opened.Load()
	if since == nil {
		return false
	}
	counted, ok := h.Counted()
	return ok && counted == *since
}

// exclusiveGroups are the groups of the partitions that are dispatched here. Run replaces them.
type exclusiveGroups map[task.Partition]*exclusiveGroup

// opening is how far this process is with a group that it owns.
type opening struct {
	phase   openingPhase
	members []string      // among which this process owns the group
	counted task.Instant  // since when the others count this process as a member
	since   time.Duration // monotonic time when waiting or settles began
}

type openingPhase uint8

const (
	shut    openingPhase = iota // another process owns the group, or this one is not counted
	waiting                     // until the others follow the same list of members
	settles                     // the last writes of the others may be under way
	reads                       // the loops count the slots in use
	open
)
