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
	// noWorkerFor is how long it is taken for true that a worker has a lease for a lambda, or that none has.
	noWorkerFor = time.Second
	// noWorkerWithin bounds the read of the leases.
	noWorkerWithin = time.Second
)

// noWorker knows of which lambdas no worker runs the tasks, on any server, for whoever looks at what waits.
type noWorker struct {
	n *Node

	mu    sync.Mutex
	known map[uint32]leaseLook // by lambda
}

// leaseLook is what was seen when the leases were read, at a monotonic time.
type leaseLook struct {
	at   time.Duration
	none bool
}

func newNoWorker(n *Node) *noWorker { return &noWorker{n: n, known: map[uint32]leaseLook{}} }

// is reports whether no worker has a stream here or a lease for a lambda. While the leases cannot be read it
// is false.
func (w *noWorker) is(l *catalog.Entry) bool {
	if w.n.hsc != nil && w.n.hsc.Serves(&task.Task{Partition: task.Partition{Lambda: l.Ref}}) {
		return false
	}
	now := clock.Mono(w.n.clock)
	if look, fresh := w.seen(l.Ref, now); fresh {
		return look.none
	}
	none := w.hasNoLease(l) // without the lock: a slow store would hold up all who look at tasks, one after the other
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[l.Ref] = leaseLook{now, none}
	return none
}

// seen returns what was seen a moment ago.
func (w *noWorker) seen(lambda uint32, now time.Duration) (leaseLook, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	look, known := w.known[lambda]
	if known && now-look.at >= noWorkerFor {
		delete(w.known, lambda)
	}
	return look, known && now-look.at < noWorkerFor
}

func (w *noWorker) hasNoLease(l *catalog.Entry) bool {
	ctx, cancel := clock.Within(context.Background(), w.n.clock, noWorkerWithin)
	defer cancel()
	count, err := w.n.countWorkers(ctx, l.Name)
	return err == nil && count == 0
}
