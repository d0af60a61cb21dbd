package guard

import (
	"context"
	"errors"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
	"github.com/kinesin-io/kinesin/task"
)

// Actions on tasks, as they are in the audit log.
const (
	actSchedule = "task.schedule"
	actRead     = "task.read"
	actPayload  = "task.read_payload"
	actList     = "task.list"
)

type tasks struct {
	*Guard

	next kinesinv1connect.TaskServiceHandler
}

// Tasks guards a TaskService.
func (g *Guard) Tasks(next kinesinv1connect.TaskServiceHandler) kinesinv1connect.TaskServiceHandler {
	return tasks{g, next}
}

// Schedule needs schedule on the collection of each item.
func (s tasks) Schedule(ctx context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	if err := s.ScheduleAll(ctx, r.GetItems()); err != nil {
		return nil, err
	}
	return s.next.Schedule(ctx, r)
}

// ScheduleAll needs schedule on the collection of each follow-up, and of those that follow it.
func (g *Guard) ScheduleAll(ctx context.Context, lists ...[]*kinesinv1.ScheduleItem) error {
	c := access.From(ctx)
	if c.Grants.AllowAll(access.Schedule) {
		return nil
	}
	for _, items := range lists {
		for _, item := range items {
			if lambda, collection := item.GetLambda(), item.GetCollection(); !c.Grants.AllowIn(access.Schedule, lambda, collection) {
				return g.deny(c, actSchedule, access.Schedule, nameIn(c, access.Schedule, lambda, collection))
			}
			if err := g.ScheduleAll(ctx, item.GetThen(), item.GetElse(), item.GetFinally()); err != nil {
				return err
			}
		}
	}
	return nil
}

// nameIn names what a verb is missing on: a lambda, or one collection of it.
func nameIn(c access.Caller, v access.Verb, lambda, collection string) string {
	if !c.Grants.AllowSome(v, lambda) {
		return lambda
	}
	if collection == "" {
		return lambda + " for tasks without a collection"
	}
	return lambda + " in collection " + collection
}

// Get needs read on each task, and read-payload for payloads and results.
func (s tasks) Get(ctx context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	if r.GetWithPayload() {
		return s.getPayloads(ctx, r)
	}
	if err := s.allowNamed(ctx, actRead, access.Read, r); err != nil {
		return nil, err
	}
	response, err := s.next.Get(ctx, r)
	return s.withResults(ctx, s.visible(ctx, response, access.Read)), err
}

func (s tasks) getPayloads(ctx context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	for _, v := range []access.Verb{access.Read, access.ReadPayload} {
		if err := s.allowNamed(ctx, actPayload, v, r); err != nil {
			return nil, err
		}
	}
	response, err := s.next.Get(ctx, r)
	response = s.visible(ctx, s.visible(ctx, response, access.Read), access.ReadPayload)
	s.noteRead(ctx, response, func(*kinesinv1.Task) bool { return true })
	return response, err
}

// Wait needs read on each task, and read-payload for results. The waits of one caller are bounded.
func (s tasks) Wait(ctx context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	if err := s.allowNamed(ctx, actRead, access.Read, r); err != nil {
		return nil, err
	}
	end, err := s.waits.begin(access.From(ctx), len(r.GetIds())+len(r.GetKeys()))
	if err != nil {
		return nil, err
	}
	defer end()
	response, err := s.next.Wait(ctx, r)
	return s.withResults(ctx, s.visible(ctx, response, access.Read)), err
}

// withResults leaves results to callers who may read payloads, and notes that they read them.
func (s tasks) withResults(ctx context.Context, response *kinesinv1.GetResponse) *kinesinv1.GetResponse {
	c := access.From(ctx)
	for _, result := range response.GetResults() {
		if t := result.GetTask(); t != nil && !c.Grants.AllowIn(access.ReadPayload, t.GetLambda(), t.GetCollection()) {
			t.Result = nil
		}
	}
	s.noteRead(ctx, response, func(t *kinesinv1.Task) bool { return len(t.GetResult()) > 0 })
	return response
}

// noteRead notes which payloads or results a caller has read.
func (s tasks) noteRead(ctx context.Context, response *kinesinv1.GetResponse, is func(*kinesinv1.Task) bool) {
	read := map[string]uint32{}
	for _, result := range response.GetResults() {
		if t := result.GetTask(); t != nil && is(t) {
			read[t.GetLambda()]++
		}
	}
	for lambda, n := range read {
		s.noteOften(access.From(ctx), audit.Record{Action: actPayload, Target: lambda, Outcome: audit.OK, Count: n})
	}
}

// named is a request that names tasks.
type named interface {
	GetIds() []string
	GetKeys() []*kinesinv1.TaskKey
}

// allowNamed refuses a verb on tasks of lambdas of which the caller may see nothing.
func (g *Guard) allowNamed(ctx context.Context, action string, v access.Verb, r named) error {
	if access.From(ctx).Grants.AllowAll(v) {
		return nil
	}
	for _, k := range r.GetKeys() {
		if err := g.allowSome(ctx, action, v, k.GetLambda()); err != nil {
			return err
		}
	}
	for _, id := range r.GetIds() {
		lambda, err := g.LambdaOf(ctx, id)
		if errors.Is(err, task.ErrBadID) {
			continue // the role says that there is no such task
		}
		if err == nil {
			err = g.allowSome(ctx, action, v, lambda)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// visible replaces tasks of collections that the caller may not see by a refusal.
func (s tasks) visible(ctx context.Context, response *kinesinv1.GetResponse, v access.Verb) *kinesinv1.GetResponse {
	c := access.From(ctx)
	for _, result := range response.GetResults() {
		if t := result.GetTask(); t != nil && !c.Grants.AllowIn(v, t.GetLambda(), t.GetCollection()) {
			result.Task = nil
			result.Problem = api.ProblemOf(s.deny(c, "task."+string(v), v, nameIn(c, v, t.GetLambda(), t.GetCollection())))
		}
	}
	return response
}

// List needs read, and leaves out tasks of collections that the caller may not see.
func (s tasks) List(ctx context.Context, r *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	if err := s.allowList(ctx, r); err != nil {
		return nil, err
	}
	response, err := s.next.List(ctx, r)
	c := access.From(ctx)
	if err != nil || c.Grants.AllowAll(access.Read) || c.Grants.Allow(access.Read, r.GetLambda()) {
		return response, err
	}
	response.Tasks = slices.DeleteFunc(response.Tasks, func(t *kinesinv1.Task) bool { return !c.Grants.AllowIn(access.Read, t.GetLambda(), t.GetCollection()) })
	return response, nil
}
