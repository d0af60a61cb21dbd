package node

import (
	"fmt"
	"strconv"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

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
