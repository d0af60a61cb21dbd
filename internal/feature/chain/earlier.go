package chain

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// noteEnd notes in a task that starts anew the end from which it does.
func (k *Keeper) noteEnd(ctx context.Context, ended, next *task.Task) error {
	end := task.Earlier{Round: ended.Chain.Round, Ended: ended.Ended, Succeeded: ended.Succeeded(), Paused: ended.Chain.Paused}
	if ended.HasAdded() {
		all, f, err := k.Followups(ctx, ended)
		if err != nil {
			return err
		}
		for i := range all {
			one := &all[i]
			if isAdded := int(one.Index) >= len(On(f, one.Edge))-int(ended.Chain.Added[one.Edge-task.Then]); isAdded && !one.Task.ID.IsZero() && len(end.Added) < task.EarlierAddedMax {
				end.Added = append(end.Added, task.Added{Edge: one.Edge, Index: one.Index, Task: task.LinkTo(&one.Task)})
			}
		}
	}
	chain := *next.Chain
	chain.Earlier = append(slices.Clone(chain.Earlier[max(0, len(chain.Earlier)-task.EarlierMax+1):]), end)
	next.Chain = &chain
	return nil
}

// EarlierEnd is a task as it had ended before it was redriven, with what followed that.
type EarlierEnd struct {
	Ended     task.Task
	Followups []Followup
}

// Earlier returns what followed the ends of a task from which it was redriven, the oldest end first. A
// follow-up whose lambda was deleted is left out. Not all of them need be there any more.
func (k *Keeper) Earlier(ctx context.Context, t *task.Task) ([]EarlierEnd, error) {
	if t.Chain == nil || len(t.Chain.Earlier) == 0 {
		return nil, nil
	}
	encoded, err := encodedOf(ctx, k.Store, t)
	if err != nil {
		return nil, err
	}
	branches, err := split(encoded)
	if err != nil {
		return nil, err
	}
	branches = withoutAdded(branches, t.Chain)
	ends := make([]EarlierEnd, len(t.Chain.Earlier))
	for i := range ends {
		e, end := &t.Chain.Earlier[i], &ends[i]
		end.Ended = t.EarlierEnd(e)
		for at := range branches {
			if !end.Ended.Follows(branches[at].place.Edge) {
				continue
			}
			one, err := k.build(ctx, &end.Ended, &branches[at])
			if err != nil {
				return nil, err
			}
			if one != nil {
				end.Followups = append(end.Followups, Followup{one.place, one.task})
			}
		}
		for _, a := range e.Added {
			row := task.Task{ID: a.Task.ID, Partition: a.Task.Partition, Due: a.Task.Due, Wake: a.Task.Due, WakeRow: task.WakeRow{At: a.Task.Due}}
			end.Followups = append(end.Followups, Followup{Place{a.Edge, a.Index}, row})
		}
	}
	return ends, nil
}

// withoutAdded leaves out the branches that the handler added, which are the last ones on their edge.
func withoutAdded(all []branch, c *task.Chain) []branch {
	var counts [task.Finally + 1]uint32
	for i := range all {
		counts[all[i].place.Edge]++
	}
	return slices.DeleteFunc(all, func(b branch) bool {
		e := b.place.Edge
		return b.place.Index >= counts[e]-min(counts[e], c.Added[e-task.Then])
	})
}
