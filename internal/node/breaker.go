package node

import (
	"context"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/feature/gate/breaker"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

func (n *Node) newBreakers(c *Config) *breaker.Keeper {
	return breaker.New(breaker.Config{
		Store: n.store, Book: n.gates, Clock: c.Clock, Log: c.Log,
		Lambdas: n.lambdasWithBrakes, Setting: n.breakerOf, Recovery: n.quotas.book.Recovery, Changed: n.breakerChanged, Rested: n.rests,
	})
}

// lambdasWithBrakes returns the lambdas that have a circuit breaker, or gates, which may be of one.
func (n *Node) lambdasWithBrakes() (some []*task.Lambda) {
	for _, l := range n.catalog.All() {
		if l.Breaker.IsSet() || n.gates.Has(l.Ref) {
			some = append(some, &l.Lambda)
		}
	}
	return some
}

func (n *Node) breakerOf(lambda uint32) task.Breaker {
	if l := n.catalog.ByRef(lambda); l != nil {
		return l.Breaker
	}
	return task.Breaker{}
}

// noteOutcome tells the circuit breaker of a lambda how an attempt ended. One that was given back or
// cancelled says nothing.
func (n *Node) noteOutcome(t *task.Task, o task.Outcome) {
	switch o {
	case task.OutcomeSuccess, task.OutcomeSnoozed:
		n.breakers.Ended(t.Partition.Lambda, t.ClaimedAt, false)
	case task.OutcomeRetriable, task.OutcomeFatal:
		n.breakers.Ended(t.Partition.Lambda, t.ClaimedAt, true)
	default:
	}
}

// breakerChanged records what a circuit breaker did with its gate, as the calls that set and resume gates are
// recorded.
func (n *Node) breakerChanged(ctx context.Context, before, after *hold.Gate) {
	if n.audit == nil {
		return
	}
	r := audit.Record{Identity: hold.BreakerOwner, From: access.ServerName, Action: "gate.set", Target: after.Lambda, Outcome: audit.OK, After: n.gateText(after)}
	if before != nil {
		r.Before = n.gateText(before)
	}
	if after.Breaker == nil || !after.Ended.IsZero() || after.Probes() {
		r.Action = "gate.resume"
	}
	n.audit.Note(ctx, r)
}

func (n *Node) gateText(g *hold.Gate) string {
	return string(jsonform.AppendRecord(nil, gate.View(g, n.clock.Now())))
}
