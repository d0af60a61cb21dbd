package guard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/guard"
)

func (p *passed) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	p.got = r
	return &kinesinv1.ScheduleResponse{}, nil
}

// Who names a follow-up needs the right to schedule it, on whichever edge and however deep it is.
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
