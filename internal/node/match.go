package node

import (
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/task"
)

// matching finds slots of workers of this process for a role that has tasks for them, which has its own word
// for a slot. A role asks only when all of them are composed.
type matching[S any] struct {
	n  *Node
	as func(slot *hsc.Slot) S
}

// Match reserves a slot, if there is one.
func (m matching[S]) Match(t *task.Task) (none S) {
	if m.n.hsc != nil {
		if slot := m.n.hsc.Match(t); slot != nil {
			return m.as(slot)
		}
	}
	return none
}

// Serves implements dispatcher.Matcher.
func (m matching[S]) Serves(t *task.Task) bool { return m.n.hsc != nil && m.n.hsc.Serves(t) }

// matchers are what the roles ask; nil where all tasks go through their queues.
func (n *Node) matchers(c *Config) (dispatcher.Matcher, intake.Matcher) {
	if c.NoMatch {
		return nil, nil
	}
	return matching[dispatcher.Slot]{n, func(s *hsc.Slot) dispatcher.Slot { return s }},
		matching[intake.Slot]{n, func(s *hsc.Slot) intake.Slot { return s }}
}

// ended tells those who wait here that some task reached its end.
func (n *Node) ended() {
	if n.inbound != nil {
		n.inbound.Ended()
	}
}
