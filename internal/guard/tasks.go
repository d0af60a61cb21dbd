package guard

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Actions on tasks, as they are in the audit log.
const (
	actSchedule = "task.schedule"
	actRead     = "task.read"
	actPayload  = "task.read_payload"
	actList     = "task.list"
)

type tasks service[kinesinv1connect.TaskServiceHandler]

// Tasks guards a TaskService.
func (g *Guard) Tasks(next kinesinv1connect.TaskServiceHandler) kinesinv1connect.TaskServiceHandler {
	return tasks{Guard: g, next: next}
}

// Schedule needs schedule on the collection of each item.
func (s tasks) Schedule(ctx context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	return invoke(ctx, s.ScheduleAll(ctx, r.GetItems()), s.next.Schedule, r)
}

// ScheduleAll needs schedule on the collection of each task, and of those that follow it.
func (g *Guard) ScheduleAll(ctx context.Context, lists ...[]*kinesinv1.ScheduleItem) error {
	if access.From(ctx).Grants.AllowAll(access.Schedule) {
		return nil
	}
	for _, items := range lists {
		for _, item := range items {
			if item == nil {
				continue // it is refused later
			}
			if err := g.check(ctx, actSchedule, item, nil, access.Schedule); err != nil {
				return err
			}
			if err := g.ScheduleAll(ctx, item.GetThen(), item.GetElse(), item.GetFinally()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Get needs read on each task, and read-payload for payloads and results.
func (s tasks) Get(ctx context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	if r.GetWithPayload() {
		return s.getPayloads(ctx, r)
	}
	r, err := s.whole(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := s.allowNamed(ctx, actRead, r, access.Read); err != nil {
		return nil, err
	}
	response, err := s.next.Get(ctx, r)
	return s.withResults(ctx, s.readable(ctx, response)), err
}

// readable leaves the tasks that the caller may read.
func (s tasks) readable(ctx context.Context, response *kinesinv1.GetResponse) *kinesinv1.GetResponse {
	for _, result := range response.GetResults() {
		if t := result.GetTask(); t != nil {
			if err := s.check(ctx, actRead, t, errNoTask, access.Read); err != nil {
				result.Task, result.Problem = nil, api.ProblemOf(err)
			}
		}
	}
	return response
}

func (s tasks) getPayloads(ctx context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	p, err := s.permit(ctx, actPayload, r, access.Read, access.ReadPayload)
	if err != nil {
		return nil, err
	}
	response, err := s.next.Get(ctx, &kinesinv1.GetRequest{Ids: p.ids, Keys: p.keys, WithPayload: true})
	p.refuse(func(i int, _ string, problem *kinesinv1.Problem) {
		response.GetResults()[i] = &kinesinv1.GetResult{Problem: problem}
	}, err)
	s.noteRead(ctx, response, func(*kinesinv1.Task) bool { return true })
	return response, err
}

// Wait needs read on each task, and read-payload for results. The waits of one caller are bounded. For a task
// that the caller may not see nobody waits.
func (s tasks) Wait(ctx context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	p, err := s.permit(ctx, actRead, r, access.Read)
	if err != nil {
		return nil, err
	}
	end, err := s.waits.begin(access.From(ctx), len(r.GetIds())+len(r.GetKeys()))
	if err != nil {
		return nil, err
	}
	defer end()
	next := proto.CloneOf(r)
	next.Ids, next.Keys = p.ids, p.keys
	response, err := s.next.Wait(ctx, next)
	p.refuse(func(i int, _ string, problem *kinesinv1.Problem) {
		response.GetResults()[i] = &kinesinv1.GetResult{Problem: problem}
	}, err)
	return s.withResults(ctx, s.readable(ctx, response)), err
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

// allowNamed refuses verbs on tasks of lambdas of which the caller may see nothing. It reads no task.
func (g *Guard) allowNamed(ctx context.Context, action string, r named, verbs ...access.Verb) error {
	for _, v := range verbs {
		if access.From(ctx).Grants.AllowAll(v) {
			continue
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
	}
	return nil
}

// errNoTask is for a task that the caller may not see.
var errNoTask = api.ErrorOf(refusal.NoSuchTask())

// permitted is what a caller may do of what a call asks for: its tasks, in their order. A task on which the
// caller may not act is one that nobody has, so that the call goes on as it would without that task.
type permitted struct {
	ids     []string
	keys    []*kinesinv1.TaskKey
	lambdas []string             // of ids, where the tasks were read
	refused []*kinesinv1.Problem // for each id, nil for one that is permitted; nil: all are
	names   []string             // of the tasks that are refused, as the answer has them
}

// refuse calls f with each task of a call that succeeded on which the caller may not act.
func (p *permitted) refuse(f func(i int, name string, problem *kinesinv1.Problem), err error) {
	for i, problem := range p.refused {
		if problem != nil && err == nil {
			f(i, p.names[i], problem)
		}
	}
}

// permit finds out on which of the named tasks the caller has verbs. Unless the caller may do everything, the
// tasks are read before: an id does not tell the collection, which never changes.
func (s tasks) permit(ctx context.Context, action string, request named, verbs ...access.Verb) (permitted, error) {
	r, err := s.whole(ctx, request)
	if err != nil {
		return permitted{}, err
	}
	if err := s.allowNamed(ctx, action, r, verbs...); err != nil {
		return permitted{}, err
	}
	if !slices.ContainsFunc(verbs, func(v access.Verb) bool { return !access.From(ctx).Grants.AllowAll(v) }) {
		return permitted{ids: r.GetIds(), keys: r.GetKeys()}, nil
	}
	read, err := s.next.Get(ctx, r)
	if err != nil {
		return permitted{}, err
	}
	n := len(read.GetResults())
	p := permitted{ids: make([]string, n), lambdas: make([]string, n), refused: make([]*kinesinv1.Problem, n), names: make([]string, n)}
	copy(p.names, r.GetIds())
	for i, result := range read.GetResults() {
		t := result.GetTask()
		if t == nil {
			p.refused[i] = cmp.Or(result.GetProblem(), refusal.NoSuchTask())
			continue
		}
		err := s.check(ctx, action, t, errNoTask, verbs...)
		if err == nil || action == actRead && t.GetState() == task.Accepted.String() { // whose collection is not known yet
			p.ids[i], p.lambdas[i] = t.GetId(), t.GetLambda()
			continue
		}
		p.refused[i] = api.ProblemOf(err)
		if !errors.Is(err, api.ErrNotFound) {
			p.names[i] = t.GetId()
		}
	}
	return p, nil
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

// allowSet refuses verbs on a set of tasks unless each is granted, in one collection at least, on a lambda of
// which the filter may select tasks. The role leaves out the others that the caller may not read, and knows
// it when it counts to a limit.
func (g *Guard) allowSet(ctx context.Context, action, expression string, verbs ...access.Verb) error {
	c := access.From(ctx)
	for _, v := range verbs {
		if c.Grants.AllowAll(v) {
			continue
		}
		lambdas, err := g.Where(expression)
		if err != nil {
			return err
		}
		allowed := len(lambdas) == 0 && c.Grants.Have(v)
		for _, lambda := range lambdas {
			allowed = allowed || c.Grants.AllowSome(v, lambda)
		}
		switch {
		case allowed:
		case len(lambdas) == 1:
			return g.deny(c, action, v, lambdas[0])
		default:
			return g.deny(c, action, v, "")
		}
	}
	return nil
}

// allowList needs read on the lambda of a list, or, without one, on one that its filter may select.
func (s tasks) allowList(ctx context.Context, r *kinesinv1.ListRequest) error {
	if r.GetLambda() != "" {
		return s.allowSome(ctx, actList, access.Read, r.GetLambda())
	}
	return s.allowSet(ctx, actList, r.GetWhere(), access.Read)
}

// Count needs read on a lambda that its filter may select.
func (s tasks) Count(ctx context.Context, r *kinesinv1.CountRequest) (*kinesinv1.CountResponse, error) {
	return invoke(ctx, s.allowSet(ctx, "task.count", r.GetWhere(), access.Read), s.next.Count, r)
}

// Stats needs read on the lambda, in all its collections; without one it leaves out those that the caller may
// not read whole.
func (s tasks) Stats(ctx context.Context, r *kinesinv1.StatsRequest) (*kinesinv1.StatsResponse, error) {
	if r.GetLambda() == "" {
		return s.next.Stats(ctx, r)
	}
	return invoke(ctx, s.allow(ctx, "task.stats", access.Read, r.GetLambda()), s.next.Stats, r)
}

// waitedIDsMax bounds the ids that the calls of one identity from one address wait for, to a quarter of what
// a process keeps.
const waitedIDsMax = 25_000

// waitAgainAfter is when a caller that waits for too many may try again.
const waitAgainAfter = time.Second

// waiter is whoever waits.
type waiter struct{ identity, host string }

// waits counts the ids that each caller waits for.
type waits struct {
	mu  sync.Mutex
	ids map[waiter]int
}

// begin counts a call that waits, and returns what ends it; or a refusal.
func (w *waits) begin(c access.Caller, ids int) (end func(), err error) {
	key := waiter{c.Name, c.Host()}
	w.mu.Lock()
	defer w.mu.Unlock()
	if have := w.ids[key]; have+ids > waitedIDsMax {
		return nil, api.Errorf(kinesinv1.Reason_REASON_FULL,
			"%s waits for %d tasks from this address already, and may for %d: wait for fewer, or read them now and then", c.Name, have, waitedIDsMax).After(waitAgainAfter)
	}
	if w.ids == nil {
		w.ids = map[waiter]int{}
	}
	w.ids[key] += ids
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.ids[key] -= ids; w.ids[key] == 0 {
			delete(w.ids, key)
		}
	}, nil
}
