package node

import (
	"context"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// newFiring returns what puts the occurrences of crons.
func (n *Node) newFiring(c *Config, hints intake.Scheduler) *cron.Firing {
	return cron.NewFiring(cron.FiringConfig{
		Store: n.store, InlineMax: n.store.PayloadInlineMax(), Added: hints.Added, Cancel: n.cancelOccurrence, Clock: c.Clock, Log: c.Log,
		Fired: func(t *task.Task, made string) string {
			return n.tracer.Fired(t, nameOf(n.catalog.ByRef(t.Partition.Lambda)), made)
		},
		Lambda: func(ref uint32) *task.Lambda {
			if l := n.catalog.ByRef(ref); l != nil {
				return &l.Lambda
			}
			return nil
		},
	})
}

// cancelOccurrence asks for the end of a dispatched task. Another process may have changed it meanwhile: then
// whoever asked asks again.
func (n *Node) cancelOccurrence(ctx context.Context, t *task.Task) {
	l := n.catalog.ByRef(t.Partition.Lambda)
	if l == nil || t.CancelRequested {
		return
	}
	next, effect, err := t.Apply(task.Event{Kind: task.Cancel}, n.clock.Now(), l.PolicyFor(t))
	if err != nil {
		return
	}
	outcomes, err := n.chains.Apply(ctx, store.Change(next, false, false)) // it may end the task
	if err == nil && outcomes[0] == nil && effect == task.TellWorker {
		cancels{n}.CancelRequested(&next)
	}
}

// cronFirstRow returns the key of the row with which an occurrence waits.
func cronFirstRow(c *cron.Cron, l *catalog.Entry, r *cron.Revision, nominal, due task.Instant) store.WakeKey {
	id := task.OccurrenceID(c.Ref, c.Name, c.Created, task.Firing{Revision: r.Number, Nominal: nominal})
	return store.WakeKey{Partition: cron.PartitionOf(&l.Lambda, r.Spec.Class, c.Name), Wake: due, ID: id}
}
