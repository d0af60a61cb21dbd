package node

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Lambda returns the lambda with the reference that keys and messages hold.
func (n *Node) Lambda(ref uint32) (task.Lambda, bool) {
	if l := n.catalog.ByRef(ref); l != nil {
		return l.Lambda, true
	}
	return task.Lambda{}, false
}

func (n *Node) exists(ref uint32) bool { return n.catalog.ByRef(ref) != nil }

// Lambdas returns all known lambdas, sorted by name.
func (n *Node) Lambdas() []task.Lambda {
	entries := n.catalog.All()
	all := make([]task.Lambda, len(entries))
	for i, l := range entries {
		all[i] = l.Lambda
	}
	return all
}

// Registered reports whether a lambda was created by a registration, which then also made its queues.
func (n *Node) Registered(name string) bool {
	l, err := n.catalog.Lambda(name)
	return err == nil && l.Registration != ""
}

// Withdrawn returns the lambdas whose registration is gone, and most likely their queues with it.
func (n *Node) Withdrawn(ctx context.Context) (map[string]bool, error) {
	withdrawn := map[string]bool{}
	for _, l := range n.catalog.All() {
		if l.Registration != "" {
			withdrawn[l.Name] = true
		}
	}
	if len(withdrawn) == 0 {
		return withdrawn, nil
	}
	registrations, err := lambdas.ReadRegistrations(ctx, n.store)
	for _, r := range registrations {
		delete(withdrawn, r.Name)
	}
	return withdrawn, err
}

// weights returns the weights of a lambda's priorities; nil if their order is strict.
func (n *Node) weights(lambda uint32) []uint16 {
	if l := n.catalog.ByRef(lambda); l != nil {
		return l.PriorityWeights
	}
	return nil
}

// nameOf returns the name of a lambda; empty for one that is gone.
func nameOf(l *catalog.Entry) string {
	if l == nil {
		return ""
	}
	return l.Name
}

func partitionsOf(l *catalog.Entry, priority int) []task.Partition {
	all := make([]task.Partition, l.Shards)
	for shard := range all {
		all[shard] = task.Partition{Lambda: l.Ref, Priority: uint8(priority), Shard: uint16(shard)}
	}
	return all
}

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
