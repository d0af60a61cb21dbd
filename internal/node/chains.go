package node

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/feature/chain"
	"github.com/kinesin-io/kinesin/task"
)

// newChains returns the store to which the intake writes.
func (n *Node) newChains(c *Config, starter *dispatcher.Starter, hints intake.Scheduler) *chain.Keeper {
	k := chain.Config{
		Store: n.store, Lambda: n.lambdaOfFollowup, Added: hints.Added, Clock: c.Clock, Log: c.Log, Rested: n.rests,
	}
	if n.scheduler != nil {
		k.Starter = starter
	}
	return chain.New(k)
}

func (n *Node) lambdaOfFollowup(ctx context.Context, ref uint32) (*task.Lambda, error) {
	l := n.catalog.ByRef(ref)
	if l == nil && !n.gone.has(ref) { // another process may have created it a moment ago
		if err := n.catalog.Refresh(ctx); err != nil {
			return nil, err
		}
		if l = n.catalog.ByRef(ref); l == nil {
			n.gone.add(ref)
		}
	}
	if l == nil || l.Deleting {
		return nil, nil //nolint:nilnil // it was deleted
	}
	return &l.Lambda, nil
}

// extendChain returns the chain of a task with what its handler adds to what follows it. The worker's caller
// needs the same right as whoever schedules such a task.
func (n *Node) extendChain(ctx context.Context, t *task.Task, add *kinesinv1.Followups) (*task.Chain, error) {
	if err := n.guard.ScheduleAll(ctx, add.GetThen(), add.GetElse(), add.GetFinally()); err != nil {
		return nil, err
	}
	b, end := n.intake.Begin(0)
	defer end()
	return n.chains.Extend(ctx, b, t, add)
}
