package guard

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

type groups struct {
	service[kinesinv1connect.GroupServiceHandler]

	idsThatBegin func(ctx context.Context, text string) (ids []string, err error)
}

// Groups guards a GroupService. A group is of the lambda and the collection of the first task that follows,
// which find returns. idsThatBegin returns the ids, of the groups that the caller may read, that begin with a text.
func (g *Guard) Groups(
	next kinesinv1connect.GroupServiceHandler, find finder, idsThatBegin func(ctx context.Context, text string) ([]string, error),
) kinesinv1connect.GroupServiceHandler {
	return groups{service[kinesinv1connect.GroupServiceHandler]{g, next, find}, idsThatBegin}
}

// wholeGroup has a call name its group by the whole id.
func (s groups) wholeGroup(ctx context.Context, id *string) error {
	return wholeID(id, "group", func() ([]string, error) { return s.idsThatBegin(ctx, *id) })
}

// CreateGroup needs schedule for each task that may follow: it is asked for now, and not when it follows.
func (s groups) CreateGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (*kinesinv1.CreateGroupResponse, error) {
	all := slices.Concat(r.GetThen(), r.GetElse(), r.GetFinally())
	a := act{audit.Record{Action: "group.create"}, s.ScheduleAll(ctx, all)}
	if len(all) > 0 {
		a.Target = all[0].GetLambda()
	}
	return recordChange(ctx, s.Guard, a, s.next.CreateGroup, r, func(made *kinesinv1.CreateGroupResponse) *kinesinv1.GetGroupRequest {
		return &kinesinv1.GetGroupRequest{Id: made.GetGroup().GetId()}
	})
}

// AddMembers needs schedule for each member, and for the group.
func (s groups) AddMembers(ctx context.Context, r *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	if err := s.wholeGroup(ctx, &r.Group); err != nil {
		return nil, err
	}
	if _, err := s.checkNamed(ctx, "group.add", s.find, r.GetGroup(), errNoGroup, access.Schedule); err != nil {
		return nil, err
	}
	return invoke(ctx, s.ScheduleAll(ctx, r.GetItems()), s.next.AddMembers, r)
}

func (s groups) SealGroup(ctx context.Context, r *kinesinv1.SealGroupRequest) (*kinesinv1.SealGroupResponse, error) {
	if err := s.wholeGroup(ctx, &r.Group); err != nil {
		return nil, err
	}
	a := s.onNamed(ctx, "group.seal", s.find, r.GetGroup(), errNoGroup, access.Schedule)
	a.After = s.settings(&kinesinv1.SealGroupRequest{Group: r.GetGroup(), Members: r.Members})
	return record(ctx, s.Guard, a, s.next.SealGroup, r)
}

// CancelGroup needs cancel for the group. The job that cancels the members refuses those that the caller may
// not cancel.
func (s groups) CancelGroup(ctx context.Context, r *kinesinv1.CancelGroupRequest) (*kinesinv1.CancelGroupResponse, error) {
	if err := s.wholeGroup(ctx, &r.Group); err != nil {
		return nil, err
	}
	a := s.onNamed(ctx, "group.cancel", s.find, r.GetGroup(), errNoGroup, access.Cancel)
	a.After = s.settings(&kinesinv1.CancelGroupRequest{Group: r.GetGroup(), Pace: r.GetPace()})
	return record(ctx, s.Guard, a, s.next.CancelGroup, r)
}

// GetGroup needs read for the group, or schedule, so that who adds members can tell how many there are. For
// others there is no such group.
func (s groups) GetGroup(ctx context.Context, r *kinesinv1.GetGroupRequest) (*kinesinv1.GetGroupResponse, error) {
	return invoke(ctx, s.allowRead(ctx, &r.Id), s.next.GetGroup, r)
}

// ListMembers needs what GetGroup does, and leaves out members that the caller may not read, and results of
// those whose payload it may not read.
func (s groups) ListMembers(ctx context.Context, r *kinesinv1.ListMembersRequest) (*kinesinv1.ListMembersResponse, error) {
	response, err := invoke(ctx, s.allowRead(ctx, &r.Group), s.next.ListMembers, r)
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

func (s groups) allowRead(ctx context.Context, id *string) error {
	if err := s.wholeGroup(ctx, id); err != nil {
		return err
	}
	at, err := s.checkNamed(ctx, "group.read", s.find, *id, errNoGroup)
	if err == nil && !access.From(ctx).Grants.AllowIn(access.Schedule, at.lambda, at.collection) {
		err = s.check(ctx, "group.read", at, errNoGroup, access.Read)
	}
	return err
}

var errNoGroup = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "no such group among those that you may read")
