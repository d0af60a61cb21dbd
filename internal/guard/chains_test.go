package guard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/guard"
)

func (p *passed) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	p.got = r
	return &kinesinv1.ScheduleResponse{}, nil
}

// A caller who names a follow-up needs the right to schedule it, on whichever edge and however deep it is.
func TestFollowUpsNeedTheRightToSchedule(t *testing.T) {
	grants, err := access.ParseGrants([]string{"schedule:mail"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: "bob", Grants: grants}})
	var next passed
	g := (&guard.Guard{}).Tasks(&next)
	item := func(lambda string) *kinesinv1.ScheduleItem { return &kinesinv1.ScheduleItem{Lambda: lambda} }
	bad := []*kinesinv1.ScheduleItem{item("sms")}
	for name, c := range map[string]struct {
		item *kinesinv1.ScheduleItem
		want error
	}{
		"own":     {&kinesinv1.ScheduleItem{Lambda: "mail", Then: []*kinesinv1.ScheduleItem{item("mail")}}, nil},
		"then":    {&kinesinv1.ScheduleItem{Lambda: "mail", Then: bad}, api.ErrPermissionDenied},
		"else":    {&kinesinv1.ScheduleItem{Lambda: "mail", Else: bad}, api.ErrPermissionDenied},
		"finally": {&kinesinv1.ScheduleItem{Lambda: "mail", Finally: bad}, api.ErrPermissionDenied},
		"deep":    {&kinesinv1.ScheduleItem{Lambda: "mail", Then: []*kinesinv1.ScheduleItem{{Lambda: "mail", Else: bad}}}, api.ErrPermissionDenied},
	} {
		if _, err := g.Schedule(ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{c.item}}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// created counts the calls that it gets.
type created struct {
	kinesinv1connect.UnimplementedGroupServiceHandler

	calls int
}

func (c *created) CreateGroup(context.Context, *kinesinv1.CreateGroupRequest) (*kinesinv1.CreateGroupResponse, error) {
	c.calls++
	return &kinesinv1.CreateGroupResponse{}, nil
}

func (c *created) AddMembers(context.Context, *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	c.calls++
	return &kinesinv1.AddMembersResponse{}, nil
}

// Follow-ups of the members of a group, and of the group itself, need the same right.
func TestFollowUpsInGroupsNeedTheRightToSchedule(t *testing.T) {
	grants, err := access.ParseGrants([]string{"schedule:mail"})
	if err != nil {
		t.Fatal(err)
	}
	ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: "bob", Grants: grants}})
	var next created
	g := (&guard.Guard{}).Groups(&next, func(context.Context, string) (string, string, error) { return "mail", "", nil }, nil)
	with := func(lambda string) *kinesinv1.ScheduleItem {
		deep := []*kinesinv1.ScheduleItem{{Lambda: lambda}}
		return &kinesinv1.ScheduleItem{Lambda: "mail", Then: []*kinesinv1.ScheduleItem{{Lambda: "mail", Finally: deep}}}
	}
	for name, call := range map[string]func(item *kinesinv1.ScheduleItem) error{
		"then": func(item *kinesinv1.ScheduleItem) error {
			_, err := g.CreateGroup(ctx, &kinesinv1.CreateGroupRequest{Then: []*kinesinv1.ScheduleItem{item}})
			return err
		},
		"else": func(item *kinesinv1.ScheduleItem) error {
			_, err := g.CreateGroup(ctx, &kinesinv1.CreateGroupRequest{Then: []*kinesinv1.ScheduleItem{with("mail")}, Else: []*kinesinv1.ScheduleItem{item}})
			return err
		},
		"member": func(item *kinesinv1.ScheduleItem) error {
			_, err := g.AddMembers(ctx, &kinesinv1.AddMembersRequest{Items: []*kinesinv1.ScheduleItem{item}})
			return err
		},
	} {
		next.calls = 0
		if err := call(with("sms")); !errors.Is(err, api.ErrPermissionDenied) || next.calls > 0 {
			t.Errorf("%s: %v, %d calls passed on", name, err, next.calls)
		}
		if err := call(with("mail")); err != nil || next.calls != 1 {
			t.Errorf("%s that is allowed: %v, %d calls passed on", name, err, next.calls)
		}
	}
}
