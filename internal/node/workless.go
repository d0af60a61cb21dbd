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
	// worklessFor is how long it is taken for true that no worker has a lease for a lambda.
	worklessFor = time.Second
	// worklessWithin bounds the read of the leases.
	worklessWithin = time.Second
)

// workless knows of which lambdas no worker runs the tasks, for whoever looks at one that waits.
type workless struct {
	n *Node

	mu    sync.Mutex
	since map[uint32]time.Duration // by lambda: when the leases were read, in monotonic time
}

// newWorkless returns nil where it is not known: the workers may be those of another process.
func newWorkless(n *Node, c *Config) func(l *catalog.Entry) bool {
	if c.shared || n.hsc == nil {
		return nil
	}
	w := &workless{n: n, since: map[uint32]time.Duration{}}
	return w.is
}

// is reports whether no worker has a stream or a lease for a lambda. While the leases cannot be read it is
// false.
func (w *workless) is(l *catalog.Entry) bool {
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
func (w *workless) wasAt(lambda uint32, now time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	since, known := w.since[lambda]
	if known && now-since < worklessFor {
		return true
	}
	delete(w.since, lambda)
	return false
}

func (w *workless) hasNoLease(l *catalog.Entry) bool {
	ctx, cancel := clock.Within(context.Background(), w.n.clock, worklessWithin)
	defer cancel()
	leases, err := w.n.leases.List(ctx)
	if err != nil {
		return false
	}
	wall := w.n.clock.Now()
	for i := range leases {
		if leases[i].Covers(l.Name) && !leases[i].Over(wall, 0) {
			return false
		}
	}
	return true
}
