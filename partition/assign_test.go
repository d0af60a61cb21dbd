package partition_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/task"
)

var (
	memberSets = rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]{1,4}(-[a-z0-9]{5})?`), 1, 30, rapid.ID[string])

	partitionSets = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) task.Partition {
		return task.Partition{
			Lambda:   rapid.Uint32().Draw(t, "lambda"),
			Priority: rapid.Uint8Max(7).Draw(t, "priority"),
			Shard:    rapid.Uint16Max(1023).Draw(t, "shard"),
		}
	}), 0, 300, rapid.ID[task.Partition])
)

func TestAssignmentIsCompleteAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, all := memberSets.Draw(t, "members"), partitionSets.Draw(t, "partitions")
		load := map[string]int{}
		for i, owner := range partition.Assign(members, all) {
			if !slices.Contains(members, owner) {
				t.Fatalf("%v is given to %q", all[i], owner)
			}
			load[owner]++
		}
		most := (5*len(all) + 4*len(members) - 1) / (4 * len(members)) // 1.25 times the mean, rounded up
		for owner, n := range load {
			if n > most {
				t.Fatalf("%q has %d of %d partitions among %d members: want at most %d", owner, n, len(all), len(members), most)
			}
		}
	})
}

func TestAssignmentDependsOnTheSetsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, all := memberSets.Draw(t, "members"), partitionSets.Draw(t, "partitions")
		want := map[task.Partition]string{}
		for i, owner := range partition.Assign(members, all) {
			want[all[i]] = owner
		}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		twice := append(slices.Clone(all), all[:len(all)/2]...)
		random.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
		others := append(slices.Clone(members), members[0])
		random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
		for i, owner := range partition.Assign(others, twice) {
			if owner != want[twice[i]] {
				t.Fatalf("%v goes to %q, in another order to %q", twice[i], want[twice[i]], owner)
			}
		}
	})
}

// movesMax is what may move beyond what the member that came or went has: partitions whose
// next choice became full or has room again. Over sets of up to 30 members the mean is below 3.
const movesMax = 16

func TestAssignmentMovesLittleWhenAMemberGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, all := memberSets.Draw(t, "members"), partitionSets.Draw(t, "partitions")
		if len(members) < 2 {
			t.Skip("nobody would be left")
		}
		gone := rapid.SampledFrom(members).Draw(t, "gone")
		rest := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m == gone })
		before, after := partition.Assign(members, all), partition.Assign(rest, all)
		had, moved := 0, 0
		for i := range all {
			if before[i] == gone {
				had++
			}
			if before[i] != after[i] {
				moved++
			}
		}
		// The same two assignments the other way round are those of a member that comes.
		if moved > had+movesMax {
			t.Fatalf("%d of %d partitions moved with a member that had %d", moved, len(all), had)
		}
	})
}

func TestAssignmentMovesLittleWhenALambdaComes(t *testing.T) {
	members := make([]string, 10)
	for i := range members {
		members[i] = fmt.Sprintf("scheduler-%d", i)
	}
	before := partitions(294)
	l := task.Lambda{Ref: 1000, Priorities: []string{"a", "b", "c"}, Shards: 2}
	after := append(slices.Clone(before), l.Partitions()...)
	then, now := partition.Assign(members, before), partition.Assign(members, after)
	moved := 0
	for i := range before {
		if then[i] != now[i] {
			moved++
		}
	}
	if moved > 3 {
		t.Errorf("%d of %d partitions moved because of 6 new ones", moved, len(before))
	}
}

func TestAssignmentWithoutMembers(t *testing.T) {
	for _, owner := range partition.Assign(nil, partitions(3)) {
		if owner != "" {
			t.Errorf("given to %q", owner)
		}
	}
	if got := partition.LoadMax(0, 5); got != 0 {
		t.Errorf("load of nobody: %d", got)
	}
}

// All processes must agree, also those of another version during a rollout.
func TestAssignmentGolden(t *testing.T) {
	got := partition.Assign([]string{"a", "b", "c"}, partitions(9))
	want := []string{"b", "b", "b", "c", "a", "a", "b", "c", "c"}
	if !slices.Equal(got, want) {
		t.Errorf("assignment changed:\n got %q\nwant %q", got, want)
	}
}

func BenchmarkAssign(b *testing.B) {
	members := make([]string, 20)
	for i := range members {
		members[i] = fmt.Sprintf("scheduler-7d9f8b6c5-%05d", i)
	}
	all := partitions(3000)
	for b.Loop() {
		partition.Assign(members, all)
	}
}
