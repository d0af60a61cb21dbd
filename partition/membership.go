package partition

import "slices"

// Membership knows the processes that share the partitions. The suite in
// partitiontest says what an implementation owes. All methods are safe for concurrent use and never block.
//
// Members is a last known view. An implementation that loses its source keeps the
// last one, and does not believe a list that is suddenly empty.
type Membership interface {
	// Self is the name of this process; it never changes.
	Self() string
	// Members are the names of all processes that should own partitions, sorted, each once. Self is
	// not among them while this process should own none. The slice belongs to the caller.
	Members() []string
	// Changed returns a channel that is closed at the next change of Members. One who asks for the
	// channel first and for the members then misses no change. It is nil when they never change.
	Changed() <-chan struct{}
}

// Static is a fixed membership of self and others, for one process or a fleet that is configured by hand.
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
