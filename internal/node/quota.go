package node

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
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
	return n.scheduler != nil && n.scheduler.Counts(p).Queue > 0
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

// Group implements scheduler.Concurrency, as does Limits.
func (r running) Group(p task.Partition) (group task.Partition, limited bool) {
	if group, limited = r.Running.Group(p); limited || r.keyLimited(p.Lambda) == nil {
		return group, limited
	}
	return task.Partition{Lambda: p.Lambda, Shard: p.Shard}, true
}

func (r running) Limits(group task.Partition) (c *limit.Concurrency, weights []uint16) {
	c, weights = r.Running.Limits(group)
	l := r.keyLimited(group.Lambda)
	if l == nil {
		return c, weights
	}
	if c == nil {
		c, weights = &limit.Concurrency{}, r.n.weights(group.Lambda)
	}
	if r.Shared {
		c.Set = max(c.Set, l.LimitKeySet)
	}
	return c, weights
}

// keyLimited returns a lambda that has limits by key; else nil.
func (r running) keyLimited(lambda uint32) *catalog.Entry {
	if l := r.n.catalog.ByRef(lambda); l != nil && l.HasKeyLimits() {
		return l
	}
	return nil
}

// isAwaited reports whether other tasks may wait until a task has ended.
func (r running) isAwaited(t *task.Task) bool {
	_, limited := r.Group(t.Partition)
	return limited && (r.n.scheduler == nil || r.n.scheduler.IsAwaited(t))
}

// keyLimits implements scheduler.KeyLimits.
func (n *Node) keyLimits(lambda uint32) (atOnce int32, rate float64, weighted bool) {
	if l := n.catalog.ByRef(lambda); l != nil {
		return l.LimitKeyConcurrency, l.LimitKeyRate, len(l.PriorityWeights) > 0
	}
	return 0, 0, false
}

// keyWait says for people that a task which is due waits for its limit key; empty if it does not, as far as
// is known here.
func (n *Node) keyWait(l *catalog.Entry, t *task.Task) string {
	if !l.HasKeyLimits() {
		return ""
	}
	key := strconv.Quote(t.LimitKey)
	if isPlain(t.LimitKey) {
		key = t.LimitKey
	}
	if n.scheduler != nil {
		if used, atOnce, ok := n.scheduler.KeyUse(t.Partition, t.LimitKey); ok {
			switch {
			case atOnce > 0 && used >= atOnce:
				return fmt.Sprintf("key %s: %d of %d run", key, used, atOnce)
			case l.LimitKeyRate == 0:
				return "" // something else holds it
			}
			return fmt.Sprintf("key %s: %v starts per second", key, l.LimitKeyRate)
		}
	}
	return fmt.Sprintf("key %s: the limits by key of lambda %s", key, l.Name)
}

// isPlain reports whether a key reads well without quotes.
func isPlain(key string) bool {
	return strconv.Quote(key) == `"`+key+`"` && !containsSpace(key)
}

func containsSpace(text string) bool {
	for _, c := range text {
		if c == ' ' || c == ':' {
			return true
		}
	}
	return false
}
