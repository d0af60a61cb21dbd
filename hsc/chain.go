package hsc

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// extendChains stores the follow-ups that handlers add to their tasks, and notes the longer chains in the reports. An attempt
// whose additions are refused has failed for good: the same handler would add the same again.
func (s *Service) extendChains(ctx context.Context, reports []report) {
	for i := range reports {
		r := &reports[i]
		if s.Extend == nil || r.done || r.add == nil || r.event.Outcome != task.OutcomeSuccess || r.row.ID.IsZero() || r.row.State.IsEnd() {
			continue
		}
		chain, err := s.Extend(ctx, r.row, r.add)
		refused, is := errors.AsType[*api.Error](err)
		switch {
		case err == nil:
			r.chain = chain
		case isDamaged(err):
			r.event.Outcome, r.event.Error, r.event.Result = task.OutcomeFatal, "what follows the task is damaged in the store, so that its handler cannot add to it", nil
		case is && refused.Reason != kinesinv1.Reason_REASON_UNAVAILABLE:
			r.event.Outcome, r.event.Error, r.event.Result = task.OutcomeFatal, "what was to follow the task is refused: "+refused.Text, nil
		default:
			r.done, r.problem = true, unavailableProblem()
			_ = s.unavailable(ctx, "store what follows a task", err) // the ack says it to the worker
		}
	}
}

// forgetReplaced deletes the payload rows of follow-ups which longer ones have replaced, since handlers added to them. A row
// that a crash leaves behind costs space and no more.
func (s *Service) forgetReplaced(ctx context.Context, reports []report) {
	var ops []store.Op
	for i := range reports {
		if r := &reports[i]; r.stored && r.chain != nil && r.row.Chain.FollowApart() && r.next.Chain.FollowID != r.row.Chain.FollowID {
			ops = append(ops, store.ForgetFollow(r.row))
		}
	}
	if len(ops) == 0 || s.Store.PayloadsExpire() {
		return
	}
	if _, err := s.Store.Apply(context.WithoutCancel(ctx), ops); err != nil {
		s.Hooks.Failed("delete what followed a task", err)
	}
}

// isDamaged reports whether a row is damaged, so that each try to read it would fail. A row of another version is not: a
// server of that version can read it, and this one can when it is updated.
func isDamaged(err error) bool { return errors.Is(err, store.ErrCorrupt) }

// readParent returns the parent of a task as the task's handler gets it; nil if the task follows no other.
func (s *Service) readParent(ctx context.Context, t *task.Task) (*kinesinv1.Parent, error) {
	if s.Parent == nil {
		return nil, nil //nolint:nilnil // no task follows another
	}
	p, err := s.Parent(ctx, t, s.Store.Tasks)
	if err != nil {
		s.Hooks.Failed("read a parent", err)
	}
	if p != nil {
		p.Id = s.Sealer.Seal(t.Chain.Parent.Token())
		if l := s.Catalog.ByRef(t.Chain.Parent.Partition.Lambda); l != nil {
			p.Lambda = l.Name
		}
	}
	return p, err
}

// parentDamaged says why an attempt, like all others of its task, cannot run.
const parentDamaged = "the row of the task before it is damaged, so that its handler cannot get what it needs"
