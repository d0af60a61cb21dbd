package scheduler

import (
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// turns has when the first task of each partition of a lambda is due that its loop has not dispatched, so that
// of tasks due at one instant those of higher priorities start first. Each partition has a loop, and which loop
// comes first to a waiting worker is chance. A task that one of a higher priority precedes therefore goes to its
// queue, which hands out higher priorities first. It is safe for concurrent use.
type turns struct {
	mu   sync.Mutex
	next map[task.Partition]task.Instant // the due time of the first task that is not dispatched
}

// turnsOf returns the turns of a lambda, which its loops share.
func (s *shared) turnsOf(lambda uint32) *turns {
	one, known := s.turns.Load(lambda)
	if !known {
		one, _ = s.turns.LoadOrStore(lambda, &turns{next: map[task.Partition]task.Instant{}})
	}
	return one.(*turns) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// tell notes when the first task of a partition is due that is not dispatched; zero: none waits for that alone.
func (t *turns) tell(p task.Partition, next task.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if next.IsZero() {
		delete(t.next, p)
		return
	}
	t.next[p] = next
}

// before returns when the first task of a priority above that of a partition is due; false: none is known.
func (t *turns) before(p task.Partition) (next task.Instant, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for other, at := range t.next {
		if other.Priority < p.Priority && (!ok || at < next) {
			next, ok = at, true
		}
	}
	return next, ok
}

// tellTurns tells the lower priorities of the lambda what this loop is about to dispatch. What lacks room in
// its queue, or starts of a quota, keeps none of them back.
func (l *loop) tellTurns() {
	next := task.Instant(l.stats.oldestSend.Load())
	if l.stats.queueFull.Load() || l.stats.heldByQuota.Load() > 0 {
		next = 0
	}
	l.turns.tell(l.partition, next)
}

// inTurn marks the orders for tasks that a task of a higher priority precedes.
func (l *loop) inTurn(orders []task.Order) {
	next, ok := l.turns.before(l.partition)
	for i := range orders {
		orders[i].InTurn = ok && next <= orders[i].Task.Due
	}
}
