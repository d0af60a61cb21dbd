package partition

import (
	"slices"
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// Owner answers which partitions are this process's. It is safe for concurrent use.
type Owner struct {
	membership Membership

	mu   sync.Mutex
	last []string // newest members that were any
}

// NewOwner returns the ownership that follows from a membership.
func NewOwner(m Membership) *Owner { return &Owner{membership: m} }

// Owned are those of all partitions that are this process's now, in the order given. An
// empty list of members is not believed: the last one holds.
func (o *Owner) Owned(all []task.Partition) []task.Partition {
	self := o.membership.Self()
	var owned []task.Partition
	for i, owner := range Assign(o.members(), all) {
		if owner == self {
			owned = append(owned, all[i])
		}
	}
	return owned
}

// Changed returns a channel that is closed when Owned may answer otherwise for the same
// partitions; see Membership.Changed.
func (o *Owner) Changed() <-chan struct{} { return o.membership.Changed() }

func (o *Owner) members() []string {
	now := o.membership.Members()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(now) > 0 {
		o.last = now
	}
	return slices.Clone(o.last)
}
