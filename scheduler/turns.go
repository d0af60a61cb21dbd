package scheduler

import (
	"sync"

	"github.com/google/btree"
)

// Each partition is read ahead as soon as it is there and then every half window. Who reads takes a turn,
// since thousands of reads at once would keep the store from what cannot wait: claims, heartbeats, writes.
// Whoever waits for its turn goes on firing what it knows and what it is told of.
const (
	// turnsMax is how many partitions are read ahead at once, of those whose last look did not fail.
	turnsMax = 64
	// turnsKept of them are not offered to loops that idle. A loop that comes back again and again, because
	// there is much to fire, finds one when it has waited longest.
	turnsKept = 16
	// turnsAgainMax and turnsAgainKept are the same for partitions whose last look failed, so that reads that
	// hang or fail leave the others their turns.
	turnsAgainMax, turnsAgainKept = 16, 4
)

// turns divides the reading ahead among the partitions of a process: those first that were never read, then
// in the order of asking.
type turns struct {
	mu           sync.Mutex // guards what stands here and in lanes
	asked        uint64
	first, again lane
}

// lane has so many turns to give.
type lane struct {
	free, kept int
	idle       *btree.BTreeG[*turn] // who idles until there is one; while more than kept are free, nobody does for long
}

// turn is that of one partition. It belongs to the goroutine that fires it.
type turn struct {
	poke  chan struct{} // of that goroutine
	lane  *lane         // nil: it neither has a turn nor asks for one
	since uint64
	fresh bool // the partition was never read
}

func (t *turn) asks() bool { return t.lane != nil }

func comesFirst(a, b *turn) bool {
	if a.fresh != b.fresh {
		return a.fresh
	}
	return a.since < b.since
}

func newLane(most, kept int) lane {
	return lane{free: most, kept: kept, idle: btree.NewG(treeDegree, comesFirst)}
}

func (q *turns) init() {
	q.first, q.again = newLane(turnsMax, turnsKept), newLane(turnsAgainMax, turnsAgainKept)
}

// take takes a turn, which done ends. When there is none it asks for one.
func (q *turns) take(t *turn, fresh, again bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.lane == nil {
		q.asked++
		t.lane, t.since, t.fresh = &q.first, q.asked, fresh
		if again {
			t.lane = &q.again
		}
	}
	l := t.lane
	if l.free == 0 || l.free <= l.kept && !l.isNext(t) {
		return false
	}
	l.free--
	return true
}

// done ends a turn.
func (q *turns) done(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.lane.free++
	t.lane.offer()
	t.lane = nil
}

// leave asks for no turn any more.
func (q *turns) leave(t *turn) {
	if !t.asks() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.lane.idle.Delete(t)
	t.lane.offer() // what it may have been poked for
	t.lane = nil
}

// rest says that who asks idles until it is poked, rise that it does no longer.
func (q *turns) rest(t *turn) {
	if !t.asks() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.lane.idle.ReplaceOrInsert(t)
	t.lane.offer()
}

func (q *turns) rise(t *turn) {
	if !t.asks() {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	t.lane.idle.Delete(t)
}

func (l *lane) isNext(t *turn) bool {
	first, others := l.idle.Min()
	return !others || !comesFirst(first, t)
}

// offer pokes the next one if there is a turn for it. The turn is not set aside: should somebody else take
// it, the end of that one is offered again.
func (l *lane) offer() {
	if l.free <= l.kept {
		return
	}
	if next, ok := l.idle.DeleteMin(); ok {
		wake(next.poke)
	}
}
