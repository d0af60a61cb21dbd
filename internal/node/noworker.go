package node

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// leasesKnownFor is how long what was read of the leases is taken for true, so that looks at many tasks
	// and lambdas read them once.
	leasesKnownFor = time.Second
	// leasesWithin bounds the read of the leases.
	leasesWithin = time.Second
)

// is reports whether no worker has a stream here or a lease for a lambda. While the leases cannot be read it
// is false.
func (w *noWorker) is(l *catalog.Entry) bool {
	if len(w.n.slots.Of(l)) > 0 {
		return false
	}
	look := w.look()
	return !look.failed && workersOf(look.leases, l.Name, w.n.clock.Now()) == 0
}

// look returns what was seen a moment ago, or now. It reads without the lock: a slow store would hold up all
// who look at tasks, one after the other.
func (w *noWorker) look() leaseLook {
	now := clock.Mono(w.n.clock)
	w.mu.Lock()
	last := w.last
	w.mu.Unlock()
	if last.at != 0 && now-last.at < leasesKnownFor {
		return last
	}
	ctx, cancel := clock.Within(context.Background(), w.n.clock, leasesWithin)
	defer cancel()
	leases, err := w.n.leases.List(ctx)
	look := leaseLook{now, leases, err != nil}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = look
	return look
}

// goneMax bounds how many deleted lambdas are remembered.
const goneMax = 10_000

// goneLambdas are lambdas that follow-ups name and that were deleted, so that the lambdas are read again once
// for each and not for each of its follow-ups. A reference is never used again.
type goneLambdas struct {
	mu   sync.Mutex // guards refs
	refs map[uint32]struct{}
}

func (g *goneLambdas) has(ref uint32) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, is := g.refs[ref]
	return is
}

func (g *goneLambdas) add(ref uint32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refs == nil || len(g.refs) >= goneMax {
		g.refs = map[uint32]struct{}{}
	}
	g.refs[ref] = struct{}{}
}
