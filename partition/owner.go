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
	last []string            // newest members that were any
	seen map[string]struct{} // all that ever were, as far as they are remembered
}

// seenMax bounds the names that are remembered; one that is forgotten is a stranger again.
const seenMax = 4096

// NewOwner returns the ownership that follows from a membership.
func NewOwner(m Membership) *Owner { return &Owner{membership: m, seen: map[string]struct{}{}} }

// Self is the name of this process among the members.
func (o *Owner) Self() string { return o.membership.Self() }

// Owners are the members whose the partitions are now, in their order, and all members there are. An empty
// list of members is not believed: the last one holds. Where there never was one, the owners are empty too.
func (o *Owner) Owners(all []task.Partition) (owners, members []string) {
	members = o.members()
	return Assign(members, all), members
}

// Owned are those of all partitions that are this process's now, in the order given.
func (o *Owner) Owned(all []task.Partition) []task.Partition {
	self := o.membership.Self()
	var owned []task.Partition
	owners, _ := o.Owners(all)
	for i, owner := range owners {
		if owner == self {
			owned = append(owned, all[i])
		}
	}
	return owned
}

// Changed returns a channel that is closed when Owners may answer otherwise for the same
// partitions; see Membership.Changed.
func (o *Owner) Changed() <-chan struct{} { return o.membership.Changed() }

func (o *Owner) members() []string {
	now := o.membership.Members()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(now) > 0 {
		o.last = now
		o.remember(now)
	}
	return slices.Clone(o.last)
}

func (o *Owner) remember(members []string) {
	if len(o.seen)+len(members) > seenMax {
		clear(o.seen)
	}
	for _, name := range members {
		o.seen[name] = struct{}{}
	}
}

// Presence tells what is known of a process by its name: whether it is a member, and if not, whether it is
// gone for sure: it was a member, or the members never change. Neither means that it was never heard of; it
// may have come a moment ago.
func (o *Owner) Presence(process string) (here, gone bool) {
	if slices.Contains(o.members(), process) {
		return true, false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_, was := o.seen[process]
	return false, was || o.membership.Changed() == nil
}
