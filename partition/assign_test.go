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

// movedBy counts what has another owner, and what those who come or go have.
func movedBy(members, others []string, all []task.Partition) (moved, minimum int) {
	before, after := partition.Assign(members, all), partition.Assign(others, all)
	for i := range all {
		if before[i] != after[i] {
			moved++
		}
		if !slices.Contains(others, before[i]) || !slices.Contains(members, after[i]) {
			minimum++
		}
	}
	return moved, minimum
}

// movesMax is what may move beyond what the member that came or went has: partitions whose
// next choice became full or has room again.
const movesMax = 16

// The two assignments are also those of a member that comes, read the other way round.
func TestAssignmentMovesLittleWhenAMemberGoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members, all := memberSets.Draw(t, "members"), partitionSets.Draw(t, "partitions")
		if len(members) < 2 {
			return
		}
		gone := rapid.SampledFrom(members).Draw(t, "gone")
		rest := slices.DeleteFunc(slices.Clone(members), func(m string) bool { return m == gone })
		if moved, minimum := movedBy(members, rest, all); moved > minimum+movesMax {
			t.Fatalf("%d of %d partitions moved with a member that had %d", moved, len(all), minimum)
		}
	})
}

// TestAssignmentMovesLittleOverManyChanges replaces the members one by one, each new one joining before an
// old one goes, and looks at every step of a fleet that grows past the sizes at which the most that one may
// have changes.
func TestAssignmentMovesLittleOverManyChanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]{5}`), 2, 60, rapid.ID[string]).Draw(t, "members")
		all := partitions(rapid.IntRange(1, 400).Draw(t, "partitions"))
		had := 1 + len(members)/2
		moves, minima := 0, 0
		for i := had; i < len(members); i++ {
			moved, minimum := movedBy(members[:i], members[:i+1], all)
			back, least := movedBy(members[:i+1], slices.Delete(slices.Clone(members[:i+1]), i-had, i-had+1), all)
			if moved > minimum+movesMax || back > least+movesMax {
				t.Fatalf("%d and %d of %d partitions moved where %d and %d had to", moved, back, len(all), minimum, least)
			}
			moves, minima = moves+moved+back, minima+minimum+least
		}
		if moves > 4*minima+movesMax {
			t.Fatalf("%d partitions moved over all changes, of which %d had to", moves, minima)
		}
	})
}

// TestAssignmentPassesSizesSmoothly grows a fleet past the size (416 members for 1,000 partitions) at which
// the most that one may have falls from 4 to 3: not everyone who has 4 lets go of one at that moment.
func TestAssignmentPassesSizesSmoothly(t *testing.T) {
	members := fleet(430)
	all := partitions(1000)
	for n := 400; n < len(members); n++ {
		if moved, minimum := movedBy(members[:n], members[:n+1], all); moved > minimum+2*movesMax {
			t.Errorf("%d partitions moved with the %dth member, which has %d", moved, n+1, minimum)
		}
	}
}

func fleet(n int) []string {
	members := make([]string, n)
	for i := range members {
		members[i] = fmt.Sprintf("scheduler-7d9f8b6c5-%05d", i)
	}
	return members
}

func TestAssignmentMovesLittleWhenALambdaComes(t *testing.T) {
	members := fleet(10)
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
	want := []string{"b", "b", "b", "c", "a", "a", "a", "b", "c"}
	if !slices.Equal(got, want) {
		t.Errorf("assignment changed:\n got %q\nwant %q", got, want)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct{ members, partitions int }{{20, 3000}, {500, 100_000}} {
		b.Run(fmt.Sprintf("%d members, %d partitions", c.members, c.partitions), func(b *testing.B) {
			b.ReportAllocs()
			members, all := fleet(c.members), partitions(c.partitions)
			for b.Loop() {
				partition.Assign(members, all)
			}
		})
	}
}
