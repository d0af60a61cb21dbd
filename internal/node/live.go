package node

import (
	"context"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// heldBack returns what tells what holds the tasks of a lambda back; nil without the scheduler's role.
func (n *Node) heldBack() func(lambda uint32) inbound.HeldBack {
	if n.scheduler == nil {
		return nil
	}
	return func(lambda uint32) (held inbound.HeldBack) {
		l := n.catalog.ByRef(lambda)
		if l == nil {
			return held
		}
		for _, p := range l.Partitions() {
			of := n.scheduler.HeldBack(p)
			held.Gates += of.Gates
			held.Quotas[p.Priority] += of.Quotas
			held.Keys += of.Keys
			held.Retries += of.Retries
			held.Unexplained += of.Unexplained
			held.QueueFull[p.Priority] = held.QueueFull[p.Priority] || of.Queue > 0
		}
		for _, limit := range n.quotas.book.Starts(lambda) {
			held.Limits = append(held.Limits, inbound.StartLimit{Priority: limit.Priority, Class: limit.Class, Rate: limit.Rate, Concurrency: limit.Concurrency})
		}
		return held
	}
}

// countWorkers returns how many worker processes have a lease for a lambda, of all servers.
func (n *Node) countWorkers(ctx context.Context, lambda string) (int, error) {
	leases, err := n.leases.List(ctx)
	if err != nil {
		return 0, err
	}
	return workersOf(leases, lambda, n.clock.Now()), nil
}

// workersOf counts the leases for a lambda that are not over.
func workersOf(leases []lease.Lease, lambda string, wall task.Instant) (count int) {
	for i := range leases {
		if leases[i].Covers(lambda) && !leases[i].Over(wall, 0) {
			count++
		}
	}
	return count
}

// countedStarts counts the starts that the scheduler takes of the quotas.
type countedStarts struct {
	scheduler.Quotas

	recent *recent
}

// Take implements scheduler.Quotas.
func (c countedStarts) Take(p task.Partition, want, wait int) (granted int, again task.Instant, more <-chan struct{}) {
	granted, again, more = c.Quotas.Take(p, want, wait)
	if granted > 0 {
		c.recent.spent(p, granted)
	}
	return granted, again, more
}

// Return implements scheduler.Quotas.
func (c countedStarts) Return(p task.Partition, count int) {
	c.Quotas.Return(p, count)
	if count > 0 {
		c.recent.spent(p, -count)
	}
}
