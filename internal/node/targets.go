package node

import "github.com/kinesin-io/kinesin/task"

// Settings returns the lambdas that this process knows, by name, and a channel that is closed at the next change
// of any.
func (n *Node) Settings() (all []task.Lambda, changed <-chan struct{}) {
	changed = n.catalog.Changed() // before they are read
	return n.Lambdas(), changed
}

// TargetCalled counts a call of the target of a lambda, by the class of its answer.
func (n *Node) TargetCalled(lambda, class string) {
	if l, err := n.catalog.Lambda(lambda); err == nil {
		n.metrics.targetCalls.WithLabelValues(n.metrics.made(l, 0).name, class).Inc()
	}
}

// TargetOpen changes how many attempts call a target now.
func (n *Node) TargetOpen(change int) { n.metrics.targetsOpen.Add(float64(change)) }
