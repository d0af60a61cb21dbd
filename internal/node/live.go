package node

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
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
			of := n.scheduler.Counts(p)
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

// lateRowsMax bounds the rows of a lambda that one count of its late tasks reads here, and lateRowsMin those
// of each of its partitions from below.
const lateRowsMax, lateRowsMin = store.ScanMax, 100

// waitingLate counts the tasks that have waited for their first start for longer than an objective allows,
// whatever holds them, in the partitions that are fired here.
func (n *Node) waitingLate(ctx context.Context, o *objective.Objective) (late int64, err error) {
	l := n.catalog.ByRef(o.Ref)
	if l == nil {
		return 0, nil
	}
	here := slices.DeleteFunc(slices.Clone(l.Partitions()), func(p task.Partition) bool { return !n.scheduler.Fires(p) })
	through := n.clock.Now().Add(-o.Within) - 1
	for _, p := range here {
		most := max(lateRowsMax/len(here), lateRowsMin)
		rows, err := n.store.ScanSchedule(ctx, p, store.WakeKey{}, through, most)
		if err != nil {
			return 0, err
		}
		found, err := n.countLate(ctx, rows, through)
		if err != nil {
			return 0, err
		}
		if len(rows) == most {
			found = max(found, min(n.unstarted(p), extrapolated(found, rows, through)))
		}
		late += found
	}
	return late, nil
}

// countLate counts the tasks behind wake-up rows that were due by an instant and have not started.
func (n *Node) countLate(ctx context.Context, rows []task.Task, through task.Instant) (late int64, err error) {
	if len(rows) == 0 {
		return 0, nil
	}
	ids := make([]task.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
	}
	tasks, err := n.store.Tasks(ctx, ids)
	if err != nil {
		return 0, err
	}
	now := n.clock.Now()
	for i := range rows {
		t := &tasks[i]
		switch store.Conclude(&rows[i], t, now) {
		case store.Leftover, store.Unclear:
			continue
		case store.Undispatched:
			t = &rows[i]
		default: // the task row is the task
		}
		if !t.ID.IsZero() && t.FirstStarted.IsZero() && !t.State.IsRunning() && !t.State.IsEnd() && t.Due <= through {
			late++
		}
	}
	return late, nil
}

// unstarted returns how many tasks of a partition wait for a start; 0 where the store does not count them.
func (n *Node) unstarted(p task.Partition) int64 {
	depths, ready := n.store.Depths()
	if !ready {
		return 0
	}
	depth := depths[p]
	return depth[task.Scheduled] + depth[task.Enqueued] + depth[task.Acquired]
}

// extrapolated returns how many tasks are late if those behind the rows that were read are as dense.
func extrapolated(found int64, rows []task.Task, through task.Instant) int64 {
	first, last := rows[0].WakeRow.At, rows[len(rows)-1].WakeRow.At
	if last <= first {
		return found
	}
	return found + int64(float64(found)*float64(through.Sub(last))/float64(last.Sub(first)))
}
