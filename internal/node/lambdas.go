package node

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
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
