package dispatcher

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// looksMax bounds the slot groups that are looked at for one task.
const looksMax = 64

// Waiting is a slot group of a worker that is connected to this process. Two that are equal are the same slot group.
type Waiting interface {
	// IsIdle reports whether the slot group has waited for a message for a moment. It is a hint: Reserve decides.
	IsIdle(now time.Duration) bool
	// Reserve reserves a free slot for a task of a lambda; nil: there is none.
	Reserve(l *catalog.Entry) Slot
}

// Slot is a reserved slot of a worker, with the length of the worker's lease.
type Slot interface {
	Worker() string
	Lease() time.Duration
	// Settle is called once, with the outcome of the write of the task as claimed.
	Settle(claimed *task.Task, outcome error)
}

// Register has the slot groups of all workers that are connected to this process, by the lambdas that they serve. The zero
// Register has none. It is safe for concurrent use and does no I/O.
type Register struct {
	turn atomic.Uint32 // so that slot groups take turns at being looked at first

	mu       sync.RWMutex
	byLambda map[string][]Waiting // whose slices are replaced and never changed
}

// Add adds a slot group that serves a lambda.
func (r *Register) Add(lambda string, w Waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byLambda == nil {
		r.byLambda = map[string][]Waiting{}
	}
	r.byLambda[lambda] = append(slices.Clip(r.byLambda[lambda]), w)
}

// Remove removes a slot group that served a lambda.
func (r *Register) Remove(lambda string, w Waiting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(r.byLambda[lambda]), func(one Waiting) bool { return one == w })
	if r.byLambda[lambda] = left; len(left) == 0 {
		delete(r.byLambda, lambda)
	}
}

// Of returns the slot groups that serve a lambda; none for nil.
func (r *Register) Of(l *catalog.Entry) []Waiting {
	if l == nil {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.byLambda[l.Name]
}

// Match reserves a slot for a direct hand-off of a task of a lambda, so that the task can be stored as claimed
// and needs no message; nil when the task must go through its queue. The slot would have been the task's anyway:
// it is free, its worker holds its lease, and all queues that it serves were empty.
func (r *Register) Match(l *catalog.Entry, now time.Duration) Slot {
	all := r.Of(l)
	if len(all) == 0 || l.Deleting || l.Mode != task.Managed {
		return nil
	}
	first := r.turn.Add(1)
	for i := range min(len(all), looksMax) {
		at := all[(first+uint32(i))%uint32(len(all))]
		if !at.IsIdle(now) {
			continue
		}
		if slot := at.Reserve(l); slot != nil {
			return slot
		}
	}
	return nil
}
