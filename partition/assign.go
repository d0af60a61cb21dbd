package partition

import (
	"cmp"
	"math/bits"
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

// Assign gives each partition to one member by rendezvous hashing with a bounded load. Every member has a
// score for every partition. A partition wants the member that scores highest for it, a member that has too
// many keeps those it scores highest for, and the others look for their next one. There is exactly one
// outcome, whatever the order, and it depends on the sets alone, so that all processes with the same view
// agree: names and partitions may come in any order and more than once. owners[i] is the member for
// partitions[i], empty when there are no members.
//
// When a member comes or goes, what moves is what it gains or leaves behind, and few more whose member became
// full or is so no longer. It takes members × partitions steps of about 2 ns, and memory for the partitions
// alone.
func Assign(members []string, partitions []task.Partition) (owners []string) {
	owners = make([]string, len(partitions))
	keys, which := distinct(partitions)
	m := newMatching(members, keys)
	if len(m.candidates) == 0 {
		return owners
	}
	for i := range keys {
		m.place(i)
	}
	for i := range owners {
		owners[i] = m.candidates[m.owner[which[i]]].name
	}
	return owners
}

// distinct returns the keys of partitions, each once, and for each partition which of them is its own.
func distinct(partitions []task.Partition) (keys []uint64, which []int) {
	type place struct {
		key uint64
		at  int
	}
	places := make([]place, len(partitions))
	for i, p := range partitions {
		places[i] = place{keyOf(p), i}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.key, b.key) })
	keys, which = make([]uint64, 0, len(places)), make([]int, len(places))
	for _, p := range places {
		if n := len(keys); n == 0 || keys[n-1] != p.key { // keyOf is one to one
			keys = append(keys, p.key)
		}
		which[p.at] = len(keys) - 1
	}
	return keys, which
}

// matching is who has what while partitions are given out.
type matching struct {
	candidates []candidate
	keys       []uint64
	owner      []int    // of each key: index of its candidate
	score      []uint64 // of each key, at its candidate
}

// candidate is a member while partitions are given out.
type candidate struct {
	name string
	hash uint64
	room int
	held []int // indices of keys
}

func newMatching(members []string, keys []uint64) *matching {
	names := slices.Clone(members)
	slices.Sort(names)
	names = slices.Compact(names)
	m := &matching{keys: keys, owner: make([]int, len(keys)), score: make([]uint64, len(keys))}
	for _, name := range names {
		hash := hashName(name)
		m.candidates = append(m.candidates, candidate{name: name, hash: hash, room: roomOf(hash, len(names), len(keys))})
	}
	return m
}

// roomOf is how many partitions one of so many members takes: LoadMax, or one less. If all had LoadMax, then
// where that changes with the number of members every full one would have to let go of a partition at the
// same time. So they pass from one bound to the next one by one, by their hashes, over a quarter of the way.
// Together they have room for all.
func roomOf(hash uint64, members, partitions int) int {
	whole, rest := partitions*5/(members*4), partitions*5%(members*4)
	parts := uint64(members) * 4
	if turn, _ := bits.Mul64(mix(hash+1), parts); turn < uint64(rest)*4 {
		whole++
	}
	return max(whole, 1)
}

// place finds a member for a key, and for those that lose theirs by it.
func (m *matching) place(key int) {
	best := m.next(key, -1)
	for {
		c := &m.candidates[best]
		c.held = append(c.held, key)
		m.owner[key] = best
		if len(c.held) <= c.room {
			return
		}
		key = m.giveUp(c)
		best = m.next(key, best)
	}
}

// giveUp takes from a candidate the key that it scores lowest for.
func (m *matching) giveUp(c *candidate) (key int) {
	lowest := 0
	for i, key := range c.held {
		if m.score[key] < m.score[c.held[lowest]] {
			lowest = i
		}
	}
	key = c.held[lowest]
	last := len(c.held) - 1
	c.held[lowest] = c.held[last]
	c.held = c.held[:last]
	return key
}

// next is the candidate that scores highest for a key after another one, or of all if that is below zero. The
// lower name wins a tie. There is one, since a key is turned down only by those that are full.
func (m *matching) next(key, after int) (best int) {
	best = -1
	var bestScore uint64
	for i := range m.candidates {
		score := mix(m.candidates[i].hash ^ m.keys[key])
		if after >= 0 && (score > m.score[key] || score == m.score[key] && i <= after) {
			continue
		}
		if best < 0 || score > bestScore {
			best, bestScore = i, score
		}
	}
	m.score[key] = bestScore
	return best
}

// keyOf spreads a partition over 64 bits, each one differently.
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
