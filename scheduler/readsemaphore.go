package scheduler

import (
	"sync"

	"github.com/google/btree"
)

// Thousands of partitions that read the store at once would hold up what cannot wait: claims, heartbeats, writes. So each
// read of the schedule acquires a semaphore. A loop that waits for the semaphore goes on dispatching the tasks that it knows
// and is told of.
const (
	// readsMax is how many partitions read at once, of those whose last read did not fail.
	readsMax = 64
	// readsKept of them are not offered to parked loops. A busy loop, which never parks, takes one when it
	// has waited longest.
	readsKept = 16
	// retryReadsMax and retryReadsKept are the same for partitions whose last read failed, so that reads that
	// hang or fail leave room for the others.
	retryReadsMax, retryReadsKept = 16, 4
)

// readSemaphore bounds how many partitions read at once. First come partitions that were never read, then those that asked
// first.
type readSemaphore struct {
	mu             sync.Mutex // guards what stands here and in the pools
	requests       uint64
	regular, retry readPool
}

// readPool bounds the reads of one kind.
type readPool struct {
	free, kept int
	parked     *btree.BTreeG[*readRequest] // loops that sleep until they may read
}

// readRequest is the request of one partition. It belongs to the goroutine of its loop.
type readRequest struct {
	wake  chan struct{} // wakes that goroutine
	pool  *readPool     // nil: the loop neither reads nor waits to
	order uint64
	fresh bool // the partition was never read
}

func (r *readRequest) isOpen() bool { return r.pool != nil }

func comesFirst(a, b *readRequest) bool {
	if a.fresh != b.fresh {
		return a.fresh
	}
	return a.order < b.order
}

func newReadPool(most, kept int) readPool {
	return readPool{free: most, kept: kept, parked: btree.NewG(treeDegree, comesFirst)}
}

func newReadSemaphore() *readSemaphore {
	return &readSemaphore{regular: newReadPool(readsMax, readsKept), retry: newReadPool(retryReadsMax, retryReadsKept)}
}

// acquire reports whether a partition may read, until release. If it may not yet, the request stays open.
func (s *readSemaphore) acquire(r *readRequest, fresh, failed bool) bool {
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

// release ends a read.
func (s *readSemaphore) release(r *readRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.free++
	r.pool.offer()
	r.pool = nil
}

// withdraw ends a request of a loop that does not want to read any more.
func (s *readSemaphore) withdraw(r *readRequest) {
	if !r.isOpen() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.parked.Delete(r)
	r.pool.offer() // what it may have been woken for
	r.pool = nil
}

// park marks a loop with an open request as asleep, so that it is woken when it may read.
func (s *readSemaphore) park(r *readRequest) {
	if !r.isOpen() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.parked.ReplaceOrInsert(r)
	r.pool.offer()
}

// unpark marks a loop as awake again.
func (s *readSemaphore) unpark(r *readRequest) {
	if !r.isOpen() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.pool.parked.Delete(r)
}

func (p *readPool) isNext(r *readRequest) bool {
	first, others := p.parked.Min()
	return !others || !comesFirst(first, r)
}

// offer wakes the next parked loop if it may read. Its turn is not reserved: if another loop reads first, the
// end of that read is offered again.
func (p *readPool) offer() {
	if p.free <= p.kept {
		return
	}
	if next, ok := p.parked.DeleteMin(); ok {
		notify(next.wake)
	}
}
