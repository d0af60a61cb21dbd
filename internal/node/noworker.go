package node

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// noWorkerFor is how long it is taken for true that no worker has a lease for a lambda.
	noWorkerFor = time.Second
	// noWorkerWithin bounds the read of the leases.
	noWorkerWithin = time.Second
)

// noWorker knows of which lambdas no worker runs the tasks, for whoever looks at one that waits.
type noWorker struct {
	n *Node

	mu    sync.Mutex
	since map[uint32]time.Duration // by lambda: when the leases were read, in monotonic time
}

// newNoWorker returns nil where it is not known: the workers may be those of another process.
func newNoWorker(n *Node, c *Config) func(l *catalog.Entry) bool {
	if c.shared || n.hsc == nil {
		return nil
	}
	w := &noWorker{n: n, since: map[uint32]time.Duration{}}
	return w.is
}

// is reports whether no worker has a stream or a lease for a lambda. While the leases cannot be read it is
// false.
func (w *noWorker) is(l *catalog.Entry) bool {
	if w.n.hsc.Serves(&task.Task{Partition: task.Partition{Lambda: l.Ref}}) {
		return false
	}
	now := clock.Mono(w.n.clock)
	if w.wasAt(l.Ref, now) {
		return true
	}
	if !w.hasNoLease(l) { // without the lock: a slow store would hold up all who look at tasks, one after the other
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since[l.Ref] = now
	return true
}

// wasAt reports whether it was true a moment ago.
func (w *noWorker) wasAt(lambda uint32, now time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, known := w.since[lambda]
	if known && now-since < noWorkerFor {
		return true
	}
	delete(w.since, lambda)
	return false
}

func (w *noWorker) hasNoLease(l *catalog.Entry) bool {
	ctx, cancel := clock.Within(context.Background(), w.n.clock, noWorkerWithin)
	defer cancel()
	count, err := w.n.countWorkers(ctx, l.Name)
	return err == nil && count == 0
}
