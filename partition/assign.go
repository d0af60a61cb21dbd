package partition

import (
	"cmp"
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// LoadMax is the most partitions that one member gets: 1.25 times the mean, rounded up.
func LoadMax(members, partitions int) int {
	if members < 1 {
		return 0
	}
	return (partitions*5 + members*4 - 1) / (members * 4)
}

// Assign gives each partition to one member by rendezvous hashing with a bounded
// load: to the member that scores highest for it among those with room. The result depends on the sets
// alone, so that all processes with the same view agree; names and partitions may come in any order and more
// than once. owners[i] is the member for partitions[i], empty when there are no members.
//
// When a member comes or goes, what moves is what it gains or leaves behind, and few more whose
// member became full or is so no longer.
func Assign(members []string, partitions []task.Partition) (owners []string) {
	owners = make([]string, len(partitions))
	candidates := newCandidates(members)
	if len(candidates) == 0 {
		return owners
	}
	order := make([]int, len(partitions))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return compare(partitions[a], partitions[b]) })
	distinct := slices.CompactFunc(slices.Clone(order), func(a, b int) bool { return partitions[a] == partitions[b] })
	room := LoadMax(len(candidates), len(distinct))
	for n, i := range order {
		if n > 0 && partitions[i] == partitions[order[n-1]] {
			owners[i] = owners[order[n-1]]
			continue
		}
		best := highest(candidates, keyOf(partitions[i]), room)
		best.load++
		owners[i] = best.name
	}
	return owners
}

// candidate is a member while partitions are given out.
type candidate struct {
	name string
	hash uint64
	load int
}

func newCandidates(members []string) []candidate {
	names := slices.Clone(members)
	slices.Sort(names)
	names = slices.Compact(names)
	all := make([]candidate, 0, len(names))
	for _, name := range names {
		all = append(all, candidate{name: name, hash: hashName(name)})
	}
	return all
}

// highest is the candidate that scores highest for a partition among those with room. There
// always is one: together they have room for all partitions. The lower name wins a tie.
func highest(candidates []candidate, key uint64, room int) *candidate {
	var best *candidate
	var bestScore uint64
	for i := range candidates {
		c := &candidates[i]
		if score := mix(c.hash ^ key); c.load < room && (best == nil || score > bestScore) {
			best, bestScore = c, score
		}
	}
	return best
}

func compare(a, b task.Partition) int {
	return cmp.Or(cmp.Compare(a.Lambda, b.Lambda), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Shard, b.Shard))
}

// keyOf spreads a partition over 64 bits.
func keyOf(p task.Partition) uint64 {
	return mix(uint64(p.Lambda)<<24 | uint64(p.Priority)<<16 | uint64(p.Shard))
}

// hashName is FNV-1a, mixed.
func hashName(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return mix(h)
}
