package node

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/quota"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// newQuotas reads the quotas. Processes that share a store keep a rate together, by rows.
func (n *Node) newQuotas(ctx context.Context, c *Config) (*quotaKeeper, error) {
	k := &quotaKeeper{book: quota.NewBook(n.store, c.Clock, c.Log)}
	if err := k.book.Refresh(ctx); err != nil {
		return nil, err
	}
	var rows limit.Rows // nil for a process that is alone
	if c.shared {
		rows = n.store
	}
	k.starts = &quota.Starts{Book: k.book, Limiter: limit.NewLimiter(rows, c.Clock), Weights: n.weights}
	k.running = running{&quota.Running{Book: k.book, Weights: n.weights, Shared: c.shared}, n}
	k.retries = &limit.Retries{Share: n.retryShare, Clock: c.Clock}
	k.admission = &quota.Admission{Book: k.book, Clock: c.Clock, Servers: n.servers}
	k.service = &quota.Service{Rows: n.store, Catalog: n.catalog, Book: k.book, Clock: c.Clock}
	return k, nil
}

// servers returns how many servers share a quota, as far as this one knows: one without the scheduler's role
// knows of no other.
func (n *Node) servers() int {
	if n.members == nil {
		return 1
	}
	return len(n.members.Members())
}

func (k *quotaKeeper) within(name queue.Name, d time.Duration) (starts int, limited bool) {
	return k.starts.Within(name.Lambda, name.Priority, d)
}

// groupOf returns what names the partitions that have one owner because their running tasks are counted
// together.
func (k *quotaKeeper) groupOf(p task.Partition) task.Partition {
	group, _ := k.running.Group(p)
	return group
}

// ofStarts says what bounds the starts of a priority of a lambda; empty: nothing.
func (k *quotaKeeper) ofStarts(p task.Partition) string {
	paced, limited := k.starts.Rate(p) > 0, k.running.Bounds(p)
	switch {
	case paced && limited:
		return "starts, or of tasks that run at once (concurrency),"
	case limited:
		return "tasks that run at once (concurrency)"
	case paced:
		return "starts"
	}
	return ""
}

// queueFull reports whether tasks of a partition wait for room in their queue, as far as this process knows.
func (n *Node) queueFull(p task.Partition) bool {
	return n.scheduler != nil && n.scheduler.HeldBack(p).Queue > 0
}

// recoveryOf returns the lowest quota of recovery of the lambdas that a filter may select; 0: none has one.
func (n *Node) recoveryOf(expression string) (pace uint32, err error) {
	lambdas, err := n.where(expression)
	if err != nil {
		return 0, err
	}
	for _, name := range lambdas {
		l, err := n.catalog.Lambda(name)
		if err != nil {
			continue // it was deleted meanwhile
		}
		if of := n.quotas.book.Recovery(l.Ref); of > 0 && (pace == 0 || of < pace) {
			pace = of
		}
	}
	return pace, nil
}

// retryShare returns how many retries may start for each first start of a lambda; 0: any number.
func (n *Node) retryShare(lambda uint32) float64 {
	if l := n.catalog.ByRef(lambda); l != nil {
		return l.RetryShare
	}
	return 0
}
