package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on groups, as they are in the audit log.
const (
	actCreateGroup = "group.create"
	actAddMembers  = "group.add"
	actSealGroup   = "group.seal"
	actCancelGroup = "group.cancel"
)

type groups struct {
	*Guard

	next     kinesinv1connect.GroupServiceHandler
	lambdaOf func(ctx context.Context, id string) (string, error)
}

// Groups guards a GroupService. A group belongs to the lambda of the task that follows.
func (g *Guard) Groups(next kinesinv1connect.GroupServiceHandler, lambdaOf func(ctx context.Context, id string) (string, error)) kinesinv1connect.GroupServiceHandler {
	return groups{g, next, lambdaOf}
}

// CreateGroup needs schedule for each task that may follow: it is asked for now, and not when it follows.
func (s groups) CreateGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (*kinesinv1.CreateGroupResponse, error) {
	all := slices.Concat([]*kinesinv1.ScheduleItem{r.GetThen()}, r.GetMoreThen(), []*kinesinv1.ScheduleItem{r.GetElse()}, r.GetMoreElse(), r.GetFinally())
	all = slices.DeleteFunc(all, func(i *kinesinv1.ScheduleItem) bool { return i == nil })
	if err := s.maySchedule(ctx, actCreateGroup, all...); err != nil {
		return nil, err
	}
	response, err := s.next.CreateGroup(ctx, r)
	if !response.GetExisted() {
		s.note(ctx, audit.Record{Action: actCreateGroup, Target: slices.Concat(all, []*kinesinv1.ScheduleItem{nil})[0].GetLambda(), After: s.settings(&kinesinv1.GetGroupRequest{Id: response.GetGroup().GetId()})}, err)
	}
	return response, err
}

// AddMembers needs schedule for each member, and on the lambda of the follow-up in one collection at least.
func (s groups) AddMembers(ctx context.Context, r *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	if _, err := s.allowChange(ctx, actAddMembers, access.Schedule, r.GetGroup()); err != nil {
		return nil, err
	}
	if err := s.maySchedule(ctx, actAddMembers, r.GetItems()...); err != nil {
		return nil, err
	}
	return s.next.AddMembers(ctx, r)
}

// SealGroup needs schedule on the lambda of the follow-up in one collection at least.
func (s groups) SealGroup(ctx context.Context, r *kinesinv1.SealGroupRequest) (*kinesinv1.SealGroupResponse, error) {
	lambda, err := s.allowChange(ctx, actSealGroup, access.Schedule, r.GetGroup())
	if err != nil {
		return nil, err
	}
	response, err := s.next.SealGroup(ctx, r)
	if !response.GetExisted() {
		s.note(ctx, audit.Record{Action: actSealGroup, Target: lambda, After: s.settings(&kinesinv1.SealGroupRequest{Group: r.GetGroup(), Members: r.Members})}, err)
	}
	return response, err
}

// CancelGroup needs cancel on the lambda of the follow-up in one collection at least. The job that cancels
// the members refuses those that the caller may not cancel.
func (s groups) CancelGroup(ctx context.Context, r *kinesinv1.CancelGroupRequest) (*kinesinv1.CancelGroupResponse, error) {
	lambda, err := s.allowChange(ctx, actCancelGroup, access.Cancel, r.GetGroup())
	if err != nil {
		return nil, err
	}
	response, err := s.next.CancelGroup(ctx, r)
	s.note(ctx, audit.Record{Action: actCancelGroup, Target: lambda, After: s.settings(&kinesinv1.CancelGroupRequest{Group: r.GetGroup(), Pace: r.GetPace()})}, err)
	return response, err
}

// GetGroup needs read on the lambda of the follow-up, in one collection at least. For others there is no such
// group.
func (s groups) GetGroup(ctx context.Context, r *kinesinv1.GetGroupRequest) (*kinesinv1.GetGroupResponse, error) {
	if err := s.allowRead(ctx, r.GetId()); err != nil {
		return nil, err
	}
	return s.next.GetGroup(ctx, r)
}

// ListMembers needs what GetGroup does, and leaves out members that the caller may not read, and results of
// those whose payload it may not read.
func (s groups) ListMembers(ctx context.Context, r *kinesinv1.ListMembersRequest) (*kinesinv1.ListMembersResponse, error) {
	if err := s.allowRead(ctx, r.GetGroup()); err != nil {
		return nil, err
	}
	response, err := s.next.ListMembers(ctx, r)
	c, read := access.From(ctx), map[string]uint32{}
	for _, m := range response.GetMembers() {
		t := m.GetTask()
		switch {
		case t == nil:
		case !c.Grants.AllowIn(access.Read, t.GetLambda(), t.GetCollection()):
			m.Task = nil
		case !c.Grants.AllowIn(access.ReadPayload, t.GetLambda(), t.GetCollection()):
			t.Result = nil
		case len(t.GetResult()) > 0:
			read[t.GetLambda()]++
		}
	}
	for lambda, n := range read {
		s.noteOften(c, audit.Record{Action: actPayload, Target: lambda, Outcome: audit.OK, Count: n})
	}
	return response, err
}

// maySchedule refuses tasks of collections in which the caller may not schedule, and what is to follow them.
func (s groups) maySchedule(ctx context.Context, action string, items ...*kinesinv1.ScheduleItem) error {
	c := access.From(ctx)
	for _, item := range items {
		if item == nil {
			continue // it is refused later
		}
		if !c.Grants.AllowIn(access.Schedule, item.GetLambda(), item.GetCollection()) {
			return s.deny(c, action, access.Schedule, nameIn(c, access.Schedule, item.GetLambda(), item.GetCollection()))
		}
		if err := s.ScheduleAll(ctx, item.GetThen(), item.GetElse(), item.GetFinally()); err != nil {
			return err
		}
	}
	return nil
}

// allowChange refuses a change of a group to who has not the verb for it on the lambda of its follow-up. For
// who may not read that lambda either there is no such group.
func (s groups) allowChange(ctx context.Context, action string, verb access.Verb, id string) (lambda string, err error) {
	if lambda, err = s.lambdaOf(ctx, id); err != nil {
		return "", s.unseen(ctx, err)
	}
	err = s.allowSome(ctx, action, verb, lambda)
	if err != nil && !access.From(ctx).Grants.AllowSome(access.Read, lambda) {
		return "", errNoGroup
	}
	return lambda, err
}

func (s groups) allowRead(ctx context.Context, id string) error {
	lambda, err := s.lambdaOf(ctx, id)
	if err != nil {
		return s.unseen(ctx, err)
	}
	if g := access.From(ctx).Grants; !g.AllowSome(access.Read, lambda) && !g.AllowSome(access.Schedule, lambda) {
		return errNoGroup
	}
	return nil
}

var errNoGroup = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such group among those of the lambdas that you may read")

// unseen has a group that does not exist look like one that the caller may not see.
func (s groups) unseen(ctx context.Context, err error) error {
	if api.ProblemOf(err).GetReason() == kinesinv1.Reason_REASON_NOT_FOUND && !access.From(ctx).Grants.AllowAll(access.Read) {
		return errNoGroup
	}
	return err
}
