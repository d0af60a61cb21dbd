package partition_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/task"
)

// If this test fails, stored tasks are looked for where they are not. Do not change what it wants.
func TestShardOfNeverChanges(t *testing.T) {
	for _, c := range []struct {
		id     string
		shards uint16
		want   uint16
	}{
		{"00000000-0000-0000-0000-000000000000", 1, 0},
		{"00000000-0000-0000-0000-000000000000", 7, 0},
		{"00000000-0000-0000-0000-000000000000", 1024, 0},
		{"00000000-0000-0000-0000-000000000000", 65535, 0},
		{"01934f5d-2a00-7000-8000-000000000001", 1, 0},
		{"01934f5d-2a00-7000-8000-000000000001", 7, 6},
		{"01934f5d-2a00-7000-8000-000000000001", 1024, 234},
		{"01934f5d-2a00-7000-8000-000000000001", 65535, 60960},
		{"01934f5d-2a00-7000-8000-000000000002", 1, 0},
		{"01934f5d-2a00-7000-8000-000000000002", 7, 6},
		{"01934f5d-2a00-7000-8000-000000000002", 1024, 421},
		{"01934f5d-2a00-7000-8000-000000000002", 65535, 48045},
		{"01934f5d-2a01-7abc-8def-010203040506", 1, 0},
		{"01934f5d-2a01-7abc-8def-010203040506", 7, 4},
		{"01934f5d-2a01-7abc-8def-010203040506", 1024, 627},
		{"01934f5d-2a01-7abc-8def-010203040506", 65535, 63140},
		{"5f1d7a84-db62-8a0b-9c3e-000102030405", 1, 0},
		{"5f1d7a84-db62-8a0b-9c3e-000102030405", 7, 3},
		{"5f1d7a84-db62-8a0b-9c3e-000102030405", 1024, 443},
		{"5f1d7a84-db62-8a0b-9c3e-000102030405", 65535, 14920},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", 1, 0},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", 7, 5},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", 1024, 459},
		{"ffffffff-ffff-ffff-ffff-ffffffffffff", 65535, 56658},
	} {
		id, err := task.ParseID(c.id)
		if err != nil {
			t.Fatal(err)
		}
		if got := partition.ShardOf(id, c.shards); got != c.want {
			t.Errorf("{%q, %d, %d},", c.id, c.shards, got)
		}
	}
}

func TestShardOfIsInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var id task.ID
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		shards := rapid.Uint16().Draw(t, "shards")
		if got := partition.ShardOf(id, shards); got >= max(shards, 1) {
			t.Fatalf("shard %d of %d", got, shards)
		}
	})
}

// timeOrdered are ids of one millisecond that differ in a counter only, as a UUIDv7 source may make them.
func timeOrdered(n uint32) (id task.ID) {
	copy(id[:], "\x01\x93\x4f\x5d\x2a\x00\x70\x00\x80")
	binary.BigEndian.PutUint32(id[12:], n)
	return id
}

// perMillisecond are ids that differ in their millisecond only.
func perMillisecond(n uint32) (id task.ID) {
	copy(id[:], "\x01\x93\x00\x00\x00\x00\x7a\xbc\x8d\xef\x01\x02\x03\x04\x05\x06")
	binary.BigEndian.PutUint32(id[2:], n)
	return id
}

// keyed are ids from a digest.
func keyed(n uint32) (id task.ID) {
	digest := sha256.Sum256(binary.BigEndian.AppendUint32(nil, n))
	copy(id[:], digest[:])
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return id
}

func TestShardOfSpreadsWell(t *testing.T) {
	for name, source := range map[string]func(uint32) task.ID{
		"counter": timeOrdered, "millisecond": perMillisecond, "digest": keyed,
	} {
		for _, shards := range []int{2, 3, 8, 10, 64, 1000, 1024} {
			const each = 100
			counts := make([]int, shards)
			for n := range shards * each {
				counts[partition.ShardOf(source(uint32(n)), uint16(shards))]++
			}
			var chi float64
			for _, n := range counts {
				chi += float64((n-each)*(n-each)) / each
			}
			// The mean of a fair draw is shards-1 with a variance of twice that; six deviations are given.
			if excess := chi - float64(shards-1); excess*excess > 36*2*float64(shards) {
				t.Errorf("%s: %d shards: chi² is %.0f", name, shards, chi)
			}
		}
	}
}

func FuzzShardOf(f *testing.F) {
	f.Add([]byte("0123456789abcdef"), uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, shards uint16) {
		var id task.ID
		copy(id[:], b)
		if got := partition.ShardOf(id, shards); got >= max(shards, 1) || got != partition.ShardOf(id, shards) {
			t.Errorf("shard %d of %d", got, shards)
		}
	})
}
