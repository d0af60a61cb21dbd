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
	actReadGroup   = "group.read"
)

type groups struct {
	*Guard

	next kinesinv1connect.GroupServiceHandler
	find finder
}

// Groups guards a GroupService. A group is of the lambda and the collection of the first task that follows,
// which find returns.
func (g *Guard) Groups(next kinesinv1connect.GroupServiceHandler, find finder) kinesinv1connect.GroupServiceHandler {
	return groups{g, next, find}
}

// CreateGroup needs schedule for each task that may follow: it is asked for now, and not when it follows.
func (s groups) CreateGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (*kinesinv1.CreateGroupResponse, error) {
	all := slices.Concat([]*kinesinv1.ScheduleItem{r.GetThen()}, r.GetMoreThen(), []*kinesinv1.ScheduleItem{r.GetElse()}, r.GetMoreElse(), r.GetFinally())
	all = slices.DeleteFunc(all, func(i *kinesinv1.ScheduleItem) bool { return i == nil })
	if err := s.ScheduleAll(ctx, all); err != nil {
		return nil, err
	}
	response, err := s.next.CreateGroup(ctx, r)
	if !response.GetExisted() {
		s.note(ctx, audit.Record{Action: actCreateGroup, Target: slices.Concat(all, []*kinesinv1.ScheduleItem{nil})[0].GetLambda(), After: s.settings(&kinesinv1.GetGroupRequest{Id: response.GetGroup().GetId()})}, err)
	}
	return response, err
}

// AddMembers needs schedule for each member, and for the group.
func (s groups) AddMembers(ctx context.Context, r *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	if _, err := s.checkNamed(ctx, actAddMembers, s.find, r.GetGroup(), errNoGroup, access.Schedule); err != nil {
		return nil, err
	}
	if err := s.ScheduleAll(ctx, r.GetItems()); err != nil {
		return nil, err
	}
	return s.next.AddMembers(ctx, r)
}

// SealGroup needs schedule for the group.
func (s groups) SealGroup(ctx context.Context, r *kinesinv1.SealGroupRequest) (*kinesinv1.SealGroupResponse, error) {
	at, err := s.checkNamed(ctx, actSealGroup, s.find, r.GetGroup(), errNoGroup, access.Schedule)
	if err != nil {
		return nil, err
	}
	response, err := s.next.SealGroup(ctx, r)
	if !response.GetExisted() {
		s.note(ctx, audit.Record{Action: actSealGroup, Target: at.lambda, After: s.settings(&kinesinv1.SealGroupRequest{Group: r.GetGroup(), Members: r.Members})}, err)
	}
	return response, err
}

// CancelGroup needs cancel for the group. The job that cancels the members refuses those that the caller may
// not cancel.
func (s groups) CancelGroup(ctx context.Context, r *kinesinv1.CancelGroupRequest) (*kinesinv1.CancelGroupResponse, error) {
	at, err := s.checkNamed(ctx, actCancelGroup, s.find, r.GetGroup(), errNoGroup, access.Cancel)
	if err != nil {
		return nil, err
	}
	response, err := s.next.CancelGroup(ctx, r)
	s.note(ctx, audit.Record{Action: actCancelGroup, Target: at.lambda, After: s.settings(&kinesinv1.CancelGroupRequest{Group: r.GetGroup(), Pace: r.GetPace()})}, err)
	return response, err
}

// GetGroup needs read for the group, or schedule, so that who adds members can tell how many there are. For
// others there is no such group.
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

func (s groups) allowRead(ctx context.Context, id string) error {
	at, err := s.checkNamed(ctx, actReadGroup, s.find, id, errNoGroup)
	if err == nil && !access.From(ctx).Grants.AllowIn(access.Schedule, at.lambda, at.collection) {
		err = s.check(ctx, actReadGroup, at, errNoGroup, access.Read)
	}
	return err
}

var errNoGroup = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such group among those that you may read")
