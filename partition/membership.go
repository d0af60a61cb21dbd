package partition

import (
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// Membership tells which processes share the partitions. The suite in partitiontest is its contract. All
// methods are safe for concurrent use and never block.
//
// Members is the last known view: an implementation that loses its source keeps the view, and ignores a list
// that is suddenly empty.
type Membership interface {
	// Self returns the name of this process, which never changes.
	Self() string
	// Members returns the names of all members, sorted, each once. It leaves out Self while this process
	// should own nothing. The slice belongs to the caller.
	Members() []string
	// Changed returns a channel that is closed at the next change of Members, or nil if they never change.
	// Ask for the channel before Members, so that no change is missed.
	Changed() <-chan struct{}
}

// Static returns a membership that never changes: self and others.
func Static(self string, others ...string) Membership {
	members := append([]string{self}, others...)
	slices.Sort(members)
	return static{self: self, members: slices.Compact(members)}
}

type static struct {
	self    string
	members []string
}

func (s static) Self() string             { return s.self }
func (s static) Members() []string        { return slices.Clone(s.members) }
func (s static) Changed() <-chan struct{} { return nil }

// Ownership assigns partitions to the members of a Membership.
type Ownership struct {
	Membership

	// Group returns what is assigned in place of a partition: partitions of one group have one owner. It may
	// be nil: each partition is assigned by itself.
	Group func(p task.Partition) task.Partition
}

// Owners returns the owner of each partition, and all members.
func (o Ownership) Owners(all []task.Partition) (owners, members []string) {
	members = o.Members()
	if o.Group != nil {
		groups := make([]task.Partition, len(all))
		for i, p := range all {
			groups[i] = o.Group(p)
		}
		all = groups
	}
	return Assign(members, all), members
}
