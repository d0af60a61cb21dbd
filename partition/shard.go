// Package partition decides which process handles which partition: it maps tasks to shards and partitions to
// members, and defines the Membership that lists the members. It reads no tasks and no rows. Two owners at
// once cost refused writes and never start a task twice.
package partition

import (
	"encoding/binary"

	"github.com/kinesin-io/kinesin/task"
)

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
