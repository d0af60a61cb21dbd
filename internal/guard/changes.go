package guard

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

// Changes of tasks, as they are in the audit log.
const (
	actCancel     = "task.cancel"
	actReschedule = "task.reschedule"
	actUpdate     = "task.update"
	actRedrive    = "task.redrive"
)

// Cancel needs cancel on each task.
func (s tasks) Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	p, err := s.permit(ctx, actCancel, r, access.Cancel)
	if err != nil {
		return nil, err
	}
	next := proto.CloneOf(r)
	next.Ids, next.Keys = p.ids, p.keys
	response, err := s.next.Cancel(ctx, next)
	if err != nil {
		return nil, err
	}
	p.refuse(func(i int, id string, problem *kinesinv1.Problem) {
		response.Results[i] = &kinesinv1.CancelResult{Id: id, Problem: problem}
	}, nil)
	s.noteChanged(ctx, actCancel, p, func(i int) bool { return response.GetResults()[i].GetProblem() == nil })
	return response, nil
}

// Reschedule needs schedule on each task.
func (s tasks) Reschedule(ctx context.Context, r *kinesinv1.RescheduleRequest) (*kinesinv1.ChangeResponse, error) {
	return s.change(ctx, actReschedule, r, func(p permitted) (*kinesinv1.ChangeResponse, error) {
		next := proto.CloneOf(r)
		next.Ids, next.Keys = p.ids, p.keys
		return s.next.Reschedule(ctx, next)
	}, access.Schedule)
}

// Redrive needs operate on each task, and schedule for another payload.
func (s tasks) Redrive(ctx context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
	verbs := []access.Verb{access.Operate}
	if r.Payload != nil || r.Blob != nil {
		verbs = append(verbs, access.Schedule)
	}
	return s.change(ctx, actRedrive, r, func(p permitted) (*kinesinv1.ChangeResponse, error) {
		next := proto.CloneOf(r)
		next.Ids, next.Keys = p.ids, p.keys
		return s.next.Redrive(ctx, next)
	}, verbs...)
}

// Update needs schedule on each task. Each update is a call of its own, since each has its own settings.
func (s tasks) Update(ctx context.Context, r *kinesinv1.UpdateRequest) (*kinesinv1.ChangeResponse, error) {
	if len(r.GetUpdates()) == 0 {
		return s.next.Update(ctx, r)
	}
	for _, u := range r.GetUpdates() { // so that a call is refused before it has changed anything
		if err := s.allowNamed(ctx, actUpdate, updated{u}, access.Schedule); err != nil {
			return nil, err
		}
	}
	response := &kinesinv1.ChangeResponse{}
	for _, u := range r.GetUpdates() {
		one, err := s.change(ctx, actUpdate, updated{u}, func(p permitted) (*kinesinv1.ChangeResponse, error) {
			next := proto.CloneOf(u)
			if len(p.ids) > 0 {
				next.Id, next.Key = p.ids[0], nil // the task that was read, whatever becomes of its key meanwhile
			}
			return s.next.Update(ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{next}})
		}, access.Schedule)
		if err != nil {
			return nil, err
		}
		response.Results = append(response.Results, one.GetResults()...)
	}
	return response, nil
}

// updated is an update as a request that names one task.
type updated struct{ *kinesinv1.TaskUpdate }

func (u updated) GetIds() []string { //nolint:revive // as generated requests have it
	if u.GetKey() != nil {
		return nil
	}
	return []string{u.GetId()}
}

func (u updated) GetKeys() []*kinesinv1.TaskKey {
	if u.GetKey() == nil {
		return nil
	}
	return []*kinesinv1.TaskKey{u.GetKey()}
}

// change lets a call through for the tasks on which the caller has verbs.
func (s tasks) change(
	ctx context.Context, action string, r named, do func(permitted) (*kinesinv1.ChangeResponse, error), verbs ...access.Verb,
) (*kinesinv1.ChangeResponse, error) {
	p, err := s.permit(ctx, action, r, verbs...)
	if err != nil {
		return nil, err
	}
	response, err := do(p)
	if err != nil {
		return nil, err
	}
	p.refuse(func(i int, id string, problem *kinesinv1.Problem) {
		response.Results[i] = &kinesinv1.ChangeResult{Id: id, Problem: problem}
	}, nil)
	s.noteChanged(ctx, action, p, func(i int) bool { return response.GetResults()[i].GetProblem() == nil })
	return response, nil
}

// noteChanged notes how many tasks of each lambda were changed.
func (s tasks) noteChanged(ctx context.Context, action string, p permitted, done func(i int) bool) {
	if s.Audit == nil {
		return
	}
	changed := map[string]uint32{}
	for i, id := range p.ids {
		if !done(i) {
			continue
		}
		if p.lambdas != nil {
			changed[p.lambdas[i]]++
			continue
		}
		lambda, _ := s.LambdaOf(ctx, id) // it was found
		changed[lambda]++
	}
	for i, k := range p.keys {
		if done(len(p.ids) + i) {
			changed[k.GetLambda()]++
		}
	}
	for lambda, n := range changed {
		s.noteOften(access.From(ctx), audit.Record{Action: action, Target: lambda, Outcome: audit.OK, Count: n})
	}
}
