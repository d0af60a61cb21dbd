package scheduler

import (
	"sync"

	"github.com/google/btree"
)

// Thousands of partitions that read the store at once would hold up what cannot wait: claims, heartbeats,
// writes. So each read of the schedule takes one of a bounded number of slots. A loop without a slot goes on
// dispatching what it knows and what it is told of.
const (
	// readSlotsMax is how many partitions read at once, of those whose last read did not fail.
	readSlotsMax = 64
	// readSlotsKept of them are not offered to parked loops. A busy loop, which never parks, takes one when
	// it has waited longest.
	readSlotsKept = 16
	// retrySlotsMax and retrySlotsKept are the same for partitions whose last read failed, so that reads that
	// hang or fail leave slots to the others.
	retrySlotsMax, retrySlotsKept = 16, 4
)

// readSlots gives slots first to partitions that were never read, then in the order of asking.
type readSlots struct {
	mu             sync.Mutex // guards what stands here and in the pools
	requests       uint64
	regular, retry slotPool
}

// slotPool is a bounded number of slots.
type slotPool struct {
	free, kept int
	parked     *btree.BTreeG[*slotRequest] // loops that sleep until there is a slot
}

// slotRequest is the request of one partition. It belongs to the goroutine of its loop.
type slotRequest struct {
	wake  chan struct{} // wakes that goroutine
	pool  *slotPool     // nil: it neither has a slot nor waits for one
	order uint64
	fresh bool // the partition was never read
}

func (r *slotRequest) isOpen() bool { return r.pool != nil }

func comesFirst(a, b *slotRequest) bool {
	if a.fresh != b.fresh {
		return a.fresh
	}
	return a.order < b.order
}

func newSlotPool(most, kept int) slotPool {
	return slotPool{free: most, kept: kept, parked: btree.NewG(treeDegree, comesFirst)}
}

func newReadSlots() *readSlots {
	return &readSlots{regular: newSlotPool(readSlotsMax, readSlotsKept), retry: newSlotPool(retrySlotsMax, retrySlotsKept)}
}

// take takes a slot, which done gives back. When there is none the request stays open.
func (s *readSlots) take(r *slotRequest, fresh, failed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.pool == nil {
		s.requests++
		r.pool, r.order, r.fresh = &s.regular, s.requests, fresh
		if failed {
			r.pool = &s.retry
		}
	}
	p := r.pool
	if p.free == 0 || p.free <= p.kept && !p.isNext(r) {
		return false
	}
	p.free--
	return true
}

// done gives a slot back.
func (s *readSlots) done(r *slotRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.free++
	r.pool.offer()
	r.pool = nil
}

// withdraw ends a request.
func (s *readSlots) withdraw(r *slotRequest) {
	if !r.isOpen() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.parked.Delete(r)
	r.pool.offer() // what it may have been woken for
	r.pool = nil
}

// park marks a loop with an open request as asleep, so that it is woken for a slot.
func (s *readSlots) park(r *slotRequest) {
	if !r.isOpen() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.parked.ReplaceOrInsert(r)
	r.pool.offer()
}

// unpark marks a loop as awake again.
func (s *readSlots) unpark(r *slotRequest) {
	if !r.isOpen() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.parked.Delete(r)
}

func (p *slotPool) isNext(r *slotRequest) bool {
	first, others := p.parked.Min()
	return !others || !comesFirst(first, r)
}

// offer wakes the next parked loop if there is a slot for it. The slot is not reserved: if another loop takes
// it, its end is offered again.
func (p *slotPool) offer() {
	if p.free <= p.kept {
		return
	}
	if next, ok := p.parked.DeleteMin(); ok {
		notify(next.wake)
	}
}
