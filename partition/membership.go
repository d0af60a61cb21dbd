// Package partition decides which process handles which partition: it maps tasks to shards and partitions to
// members, and defines the Membership that lists the members. It reads no tasks and no rows. Two owners at
// once cost refused writes and never start a task twice.
package partition

import (
	"encoding/binary"
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

// ShardOf returns the shard of a task among as many shards as Lambda.ShardsFor returns for its id. It depends
// on the id alone, so that a repeated Schedule of the same id meets the same partition, and it can never
// change, since stored rows lie where it put them.
func ShardOf(id task.ID, shards uint16) uint16 {
	if shards <= 1 {
		return 0
	}
	h := mix(mix(binary.BigEndian.Uint64(id[:8])) ^ binary.BigEndian.Uint64(id[8:]))
	return uint16(h % uint64(shards))
}

// ShardOfKey returns the shard of the tasks with a limit key, among as many shards as Lambda.ShardsFirst
// returns. All tasks of a key are in one shard, so that one owner counts them. Like ShardOf it can never
// change.
func ShardOfKey(limitKey string, shards uint16) uint16 {
	return ShardOf(task.IDOf([]byte(limitKey)), shards)
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): each bit of x affects about half of the bits
// of the result. It is written out because a library may change.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
