package guard

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
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
	allowed, err := s.permit(ctx, actCancel, access.Cancel, r)
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.CancelResponse{}
	if len(allowed.ids) > 0 || allowed.refused == nil {
		next := proto.CloneOf(r)
		next.Ids, next.Keys = allowed.ids, allowed.keys
		if response, err = s.next.Cancel(ctx, next); err != nil {
			return nil, err
		}
	}
	s.noteChanged(ctx, actCancel, allowed, func(i int) bool { return response.GetResults()[i].GetProblem() == nil })
	response.Results = merge(allowed, response.GetResults(), func(id string, p *kinesinv1.Problem) *kinesinv1.CancelResult {
		return &kinesinv1.CancelResult{Id: id, Problem: p}
	})
	return response, nil
}

// Reschedule needs schedule on each task.
func (s tasks) Reschedule(ctx context.Context, r *kinesinv1.RescheduleRequest) (*kinesinv1.ChangeResponse, error) {
	return s.change(ctx, actReschedule, access.Schedule, r, func(a permitted) (*kinesinv1.ChangeResponse, error) {
		next := proto.CloneOf(r)
		next.Ids, next.Keys = a.ids, a.keys
		return s.next.Reschedule(ctx, next)
	})
}

// Redrive needs operate on each task, and schedule for another payload.
func (s tasks) Redrive(ctx context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
	if r.Payload != nil || r.Blob != nil {
		if err := s.allowNamed(ctx, actRedrive, access.Schedule, r); err != nil {
			return nil, err
		}
	}
	return s.change(ctx, actRedrive, access.Operate, r, func(a permitted) (*kinesinv1.ChangeResponse, error) {
		next := proto.CloneOf(r)
		next.Ids, next.Keys = a.ids, a.keys
		return s.next.Redrive(ctx, next)
	})
}

// Update needs schedule on each task. Each update is a call of its own, since each has its own settings.
func (s tasks) Update(ctx context.Context, r *kinesinv1.UpdateRequest) (*kinesinv1.ChangeResponse, error) {
	if len(r.GetUpdates()) == 0 {
		return s.next.Update(ctx, r)
	}
	for _, u := range r.GetUpdates() { // so that a call is refused before it has changed anything
		if err := s.allowNamed(ctx, actUpdate, access.Schedule, updated{u}); err != nil {
			return nil, err
		}
	}
	response := &kinesinv1.ChangeResponse{}
	for _, u := range r.GetUpdates() {
		one, err := s.change(ctx, actUpdate, access.Schedule, updated{u}, func(a permitted) (*kinesinv1.ChangeResponse, error) {
			if u.GetKey() != nil && len(a.ids) == 1 {
				u.Id, u.Key = a.ids[0], nil // the task that was read, whatever becomes of its key meanwhile
			}
			return s.next.Update(ctx, &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{u}})
		})
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

// change lets a call through for the tasks on which the caller has a verb.
func (s tasks) change(
	ctx context.Context, action string, v access.Verb, r named, do func(permitted) (*kinesinv1.ChangeResponse, error),
) (*kinesinv1.ChangeResponse, error) {
	allowed, err := s.permit(ctx, action, v, r)
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.ChangeResponse{}
	if len(allowed.ids) > 0 || allowed.refused == nil {
		if response, err = do(allowed); err != nil {
			return nil, err
		}
	}
	s.noteChanged(ctx, action, allowed, func(i int) bool { return response.GetResults()[i].GetProblem() == nil })
	response.Results = merge(allowed, response.GetResults(), func(id string, p *kinesinv1.Problem) *kinesinv1.ChangeResult {
		return &kinesinv1.ChangeResult{Id: id, Problem: p}
	})
	return response, nil
}

// permitted is what a caller may do of what a call asks for.
type permitted struct {
	ids     []string
	keys    []*kinesinv1.TaskKey
	lambdas []string             // of ids, where they were read
	refused []*kinesinv1.Problem // for each task of the call, nil for one that is permitted; nil: all are
	names   []string             // of each task of the call, where they were read
}

// permit finds out on which of the named tasks the caller has a verb. Unless the caller may do everything,
// the tasks are read before: an id does not tell the collection, which never changes.
func (s tasks) permit(ctx context.Context, action string, v access.Verb, r named) (permitted, error) {
	if access.From(ctx).Grants.AllowAll(v) {
		return permitted{ids: r.GetIds(), keys: r.GetKeys()}, nil
	}
	if err := s.allowNamed(ctx, action, v, r); err != nil {
		return permitted{}, err
	}
	read, err := s.next.Get(ctx, &kinesinv1.GetRequest{Ids: r.GetIds(), Keys: r.GetKeys()})
	if err != nil {
		return permitted{}, err
	}
	var p permitted
	for _, result := range s.visible(ctx, read, v).GetResults() {
		t := result.GetTask()
		problem := result.GetProblem()
		if t == nil && problem == nil {
			problem = api.ProblemOf(errNoTask)
		}
		p.refused, p.names = append(p.refused, problem), append(p.names, t.GetId())
		if t != nil {
			p.ids, p.lambdas = append(p.ids, t.GetId()), append(p.lambdas, t.GetLambda())
		}
	}
	return p, nil
}

var errNoTask = api.Errorf(kinesinv1.Reason_REASON_INTERNAL, "the task was neither found nor refused")

// merge returns the results of a call with refusals in the places of the tasks that were not permitted.
func merge[R any](p permitted, results []R, refuse func(id string, problem *kinesinv1.Problem) R) []R {
	if p.refused == nil {
		return results
	}
	all := make([]R, len(p.refused))
	for i, problem := range p.refused {
		if problem != nil {
			all[i] = refuse(p.names[i], problem)
			continue
		}
		all[i], results = results[0], results[1:]
	}
	return all
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
