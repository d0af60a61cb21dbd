package chain

import (
	"context"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// outcomeInlineMax is the largest outcome of a parent that the row of a follow-up holds, in bytes. The rest
// of a larger one is read from the parent's row, which is kept for it.
const outcomeInlineMax = 2 << 10

// outcomeOf returns how a task ended, as its follow-up on an edge keeps it.
func outcomeOf(ended *task.Task, e task.Edge) (outcome []byte, fromParent bool, err error) {
	p := &kinesinv1.Parent{State: ended.State.String()}
	fill(p, ended, e)
	if outcome, err = p.MarshalVT(); err != nil {
		return nil, false, fmt.Errorf("encode the outcome of task %s: %w", ended.ID, err)
	}
	if len(outcome) <= outcomeInlineMax {
		return outcome, false, nil
	}
	outcome, err = (&kinesinv1.Parent{State: p.State}).MarshalVT()
	return outcome, true, err
}

// fill sets what a follow-up gets of its parent's row.
func fill(p *kinesinv1.Parent, ended *task.Task, e task.Edge) {
	p.Result, p.Key = ended.Result, ended.Key
	if e == task.Then || len(ended.History) == 0 {
		return
	}
	for i := range ended.History {
		p.Attempts = append(p.Attempts, api.WireAttempt(&ended.History[i]))
	}
	if !ended.Succeeded() {
		p.Error = ended.History[len(ended.History)-1].Error
	}
}

// ParentOf returns the parent of a follow-up as its handler gets it, without its id and lambda; nil if the task
// follows no other. A parent whose row is gone is returned as far as it is known.
func ParentOf(ctx context.Context, t *task.Task, rows func(ctx context.Context, ids []task.ID) ([]task.Task, error)) (*kinesinv1.Parent, error) {
	if t.Chain == nil || t.Chain.Edge == task.NoEdge {
		return nil, nil //nolint:nilnil // it has none
	}
	p := &kinesinv1.Parent{}
	if err := p.UnmarshalVT(t.Chain.Outcome); err != nil {
		return nil, fmt.Errorf("%w: outcome of the parent of task %s: %w", store.ErrCorrupt, t.ID, err)
	}
	p.Edge = t.Chain.Edge.String()
	if !t.Chain.FromParent {
		return p, nil
	}
	found, err := rows(ctx, []task.ID{t.Chain.Parent.ID})
	if err != nil {
		return nil, err
	}
	if row := &found[0]; !row.ID.IsZero() && row.State.String() == p.State && row.Life == t.Chain.Parent.Life {
		fill(p, row, t.Chain.Edge)
	}
	return p, nil
}
