// Package partition decides which process tries which partition: the shard of a
// task, the assignment of partitions to members, and the seam to whatever knows the
// members. It owns no task and no row. Ownership only says who tries: two owners
// at once cost a refused write, never a second start.
package partition

import (
	"encoding/binary"

	"github.com/kinesin-io/kinesin/task"
)

// ShardOf is the shard of a task by the count that Lambda.ShardsFor says of its id. It depends on the id
// alone, so that a retried Schedule of the same id lands in the same partition. It can never change: stored
// rows lie where it put them.
func ShardOf(id task.ID, shards uint16) uint16 {
	if shards <= 1 {
		return 0
	}
	h := mix(mix(binary.BigEndian.Uint64(id[:8])) ^ binary.BigEndian.Uint64(id[8:]))
	return uint16(h % uint64(shards))
}

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood 2014): each bit of x
// moves about half of the bits of the result. It is written out because a library may change.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
