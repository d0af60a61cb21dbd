package partition

import (
	"math/bits"
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// LoadMax returns how many partitions one member gets at most: 1.25 times the mean, rounded up.
func LoadMax(members, partitions int) int {
	if members < 1 {
		return 0
	}
	return (partitions*5 + members*4 - 1) / (members * 4)
}

// Assign returns the owner of each partition, by rendezvous hashing with a bounded load. Every member has a
// score for every partition. A partition goes to the member with the highest score; a full member keeps the
// partitions it scores highest for, and the others go to their next best member. This is a stable matching,
// of which there is only one: the result depends on the two sets alone, not on order or repetition, so that
// all processes with the same view agree. Without members every owner is empty.
//
// When a member joins or leaves, the partitions that move are those it gains or loses, and a few whose member
// became full or has room again. It takes members × partitions steps of about 2 ns.
func Assign(members []string, partitions []task.Partition) (owners []string) {
	owners = make([]string, len(partitions))
	keys, index := distinct(partitions)
	m := newMatching(members, keys)
	if len(m.candidates) == 0 {
		return owners
	}
	for i := range keys {
		m.place(i)
	}
	for i := range owners {
		owners[i] = m.candidates[m.owner[index[i]]].name
	}
	return owners
}

// distinct returns the sorted keys of the partitions, each once, and for each partition the index of its key.
func distinct(partitions []task.Partition) (keys []uint64, index []int) {
	all := make([]uint64, len(partitions))
	for i, p := range partitions {
		all[i] = keyOf(p) // one to one
	}
	keys = slices.Clone(all)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	index = make([]int, len(all))
	for i, key := range all {
		index[i], _ = slices.BinarySearch(keys, key)
	}
	return keys, index
}

// matching is the assignment while it is computed.
type matching struct {
	candidates []candidate
	keys       []uint64
	owner      []int    // of each key: index of its candidate
	score      []uint64 // of each key: its score at that candidate
}

// candidate is a member with the keys it holds so far.
type candidate struct {
	name     string
	hash     uint64
	capacity int
	held     []int // indices of keys
}

func newMatching(members []string, keys []uint64) *matching {
	names := slices.Clone(members)
	slices.Sort(names)
	names = slices.Compact(names)
	m := &matching{keys: keys, owner: make([]int, len(keys)), score: make([]uint64, len(keys))}
	for _, name := range names {
		hash := hashName(name)
		m.candidates = append(m.candidates, candidate{name: name, hash: hash, capacity: capacityOf(hash, len(names), len(keys))})
	}
	return m
}

// capacityOf returns how many partitions a member takes: LoadMax or one less. LoadMax changes with the number
// of members; if all members had it, every full one would then give up a partition at the same moment. So the
// members pass from one value to the next one by one, in the order of their hashes. The sum is enough for all
// partitions.
func capacityOf(hash uint64, members, partitions int) int {
	whole, rest := partitions*5/(members*4), partitions*5%(members*4)
	parts := uint64(members) * 4
	if turn, _ := bits.Mul64(mix(hash+1), parts); turn < uint64(rest)*4 {
		whole++
	}
	return max(whole, 1)
}

// place finds a member for a key, and for each key that is evicted on the way.
func (m *matching) place(key int) {
	best := m.next(key, -1)
	for {
		c := &m.candidates[best]
		c.held = append(c.held, key)
		m.owner[key] = best
		if len(c.held) <= c.capacity {
			return
		}
		key = m.evict(c)
		best = m.next(key, best)
	}
}

// evict removes from a candidate the key it scores lowest for.
func (m *matching) evict(c *candidate) (key int) {
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

// next returns the candidate with the highest score for a key that is below that of candidate after, or the
// highest of all if after is negative. The lower name wins a tie. There always is one, since only full
// candidates evict.
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

// keyOf hashes a partition to 64 bits, one to one.
func keyOf(p task.Partition) uint64 {
	return mix(uint64(p.Lambda)<<24 | uint64(p.Priority)<<16 | uint64(p.Shard))
}

// hashName returns the mixed FNV-1a hash of a name.
func hashName(name string) uint64 {
	h := uint64(0xcbf29ce484222325)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return mix(h)
}
