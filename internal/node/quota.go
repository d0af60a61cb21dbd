package node

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/internal/quota/quotas"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// quotaKeeper has what keeps the quotas of a process.
type quotaKeeper struct {
	book      *quota.Book
	starts    *quota.Starts
	admission *quota.Admission
	service   *quotas.Service
}

// newQuotas reads the quotas. Processes that share a store keep a rate together, by rows.
func (n *Node) newQuotas(ctx context.Context, c *Config) (*quotaKeeper, error) {
	k := &quotaKeeper{book: quota.NewBook(n.store, c.Clock, c.Log)}
	if err := k.book.Refresh(ctx); err != nil {
		return nil, err
	}
	var rows quota.Rows // nil for a process that is alone
	if c.shared {
		rows = n.store
	}
	k.starts = &quota.Starts{Book: k.book, Limiter: quota.NewLimiter(rows, c.Clock), Weights: n.weights}
	k.admission = &quota.Admission{Book: k.book, Clock: c.Clock, Servers: n.servers}
	k.service = &quotas.Service{Rows: n.store, Catalog: n.catalog, Book: k.book, Clock: c.Clock}
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

func (k *quotaKeeper) paces(p task.Partition) bool { return k.starts.Rate(p) > 0 }
