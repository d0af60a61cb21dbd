package node

import (
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/task"
)

// matching finds slots of workers of this process for the roles that have tasks for them. A role asks only when all of
// them are composed.
type matching struct{ n *Node }

func (m matching) match(t *task.Task) *hsc.Slot {
	if m.n.hsc == nil {
		return nil
	}
	return m.n.hsc.Match(t)
}

// forDispatcher is matching as the dispatcher asks.
type forDispatcher struct{ matching }

func (m forDispatcher) Match(t *task.Task) dispatcher.Slot {
	if slot := m.match(t); slot != nil {
		return slot
	}
	return nil
}

// Serves implements dispatcher.Matcher.
func (m forDispatcher) Serves(t *task.Task) bool { return m.n.hsc != nil && m.n.hsc.Serves(t) }

// forInbound is matching as inbound asks.
type forInbound struct{ matching }

func (m forInbound) Match(t *task.Task) inbound.Slot {
	if slot := m.match(t); slot != nil {
		return slot
	}
	return nil
}

// matchers are what the roles ask; nil where all tasks go through their queues.
func (n *Node) matchers(c *Config) (dispatcher.Matcher, inbound.Matcher) {
	if c.NoMatch {
		return nil, nil
	}
	return forDispatcher{matching{n}}, forInbound{matching{n}}
}

// ended tells those who wait here that some task reached its end.
func (n *Node) ended() {
	if n.inbound != nil {
		n.inbound.Ended()
	}
}
