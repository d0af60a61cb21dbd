package guard_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/guard"
)

const (
	first, second = "01a22df5-ea47-7f9e-adb9-397291872524", "01a22df5-ea47-7f9e-adb9-397291872525"
	ofCarol       = "01a22df5-eb00-7f9e-adb9-397291872524"
)

type someJobs struct {
	kinesinv1connect.UnimplementedJobServiceHandler

	controlled string
}

func (*someJobs) ListJobs(context.Context, *kinesinv1.ListJobsRequest) (*kinesinv1.ListJobsResponse, error) {
	return &kinesinv1.ListJobsResponse{Jobs: []*kinesinv1.Job{{Id: first, CreatedBy: "bob"}, {Id: second, CreatedBy: "bob"}, {Id: ofCarol, CreatedBy: "carol"}}}, nil
}

func (*someJobs) GetJob(_ context.Context, r *kinesinv1.GetJobRequest) (*kinesinv1.GetJobResponse, error) {
	by := map[string]string{first: "bob", second: "bob", ofCarol: "carol"}[r.GetId()]
	if by == "" {
		return nil, api.ErrNotFound
	}
	return &kinesinv1.GetJobResponse{Job: &kinesinv1.Job{Id: r.GetId(), CreatedBy: by}}, nil
}

func (s *someJobs) ControlJob(_ context.Context, r *kinesinv1.ControlJobRequest) (*kinesinv1.ControlJobResponse, error) {
	s.controlled = r.GetId()
	return &kinesinv1.ControlJobResponse{}, nil
}

// The beginning of an id stands for a job among those of the caller.
func TestTheBeginningOfAnIDStandsForAJob(t *testing.T) {
	next := &someJobs{}
	g := (&guard.Guard{}).Jobs(next, func(string) (access.Verb, bool) { return "", false })
	for _, c := range []struct{ caller, id, means, says string }{
		{"bob", second, second, ""},
		{"bob", first[:35], "", "the ids of several jobs begin so: " + first + ", " + second + "; want more of one"},
		{"carol", "01a22df5-e", ofCarol, ""},
		{"carol", first[:35], "", "no such task"},
		{"carol", "01a22df5-", "", `id "01a22df5-": want the whole id of a job, or at least its first 10 characters`},
		{"carol", "nonsense", "", "no such task"},
	} {
		ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: c.caller}})
		got, err := g.GetJob(ctx, &kinesinv1.GetJobRequest{Id: c.id})
		if got.GetJob().GetId() != c.means || c.means == "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s gets %s: %v, %v", c.caller, c.id, got, err)
		}
		next.controlled = ""
		if _, err := g.ControlJob(ctx, &kinesinv1.ControlJobRequest{Id: c.id, Action: "stop"}); next.controlled != c.means || (err == nil) != (c.means != "") {
			t.Errorf("%s stops %s: %q, %v", c.caller, c.id, next.controlled, err)
		}
	}
}

// passedGroups keeps the ids of the groups that calls name.
type passedGroups struct {
	kinesinv1connect.UnimplementedGroupServiceHandler

	got []string
}

func (p *passedGroups) AddMembers(_ context.Context, r *kinesinv1.AddMembersRequest) (*kinesinv1.AddMembersResponse, error) {
	p.got = append(p.got, r.GetGroup())
	return &kinesinv1.AddMembersResponse{}, nil
}

func (p *passedGroups) SealGroup(_ context.Context, r *kinesinv1.SealGroupRequest) (*kinesinv1.SealGroupResponse, error) {
	p.got = append(p.got, r.GetGroup())
	return &kinesinv1.SealGroupResponse{}, nil
}

func (p *passedGroups) CancelGroup(_ context.Context, r *kinesinv1.CancelGroupRequest) (*kinesinv1.CancelGroupResponse, error) {
	p.got = append(p.got, r.GetGroup())
	return &kinesinv1.CancelGroupResponse{}, nil
}

func (p *passedGroups) GetGroup(_ context.Context, r *kinesinv1.GetGroupRequest) (*kinesinv1.GetGroupResponse, error) {
	p.got = append(p.got, r.GetId())
	return &kinesinv1.GetGroupResponse{}, nil
}

func (p *passedGroups) ListMembers(_ context.Context, r *kinesinv1.ListMembersRequest) (*kinesinv1.ListMembersResponse, error) {
	p.got = append(p.got, r.GetGroup())
	return &kinesinv1.ListMembersResponse{}, nil
}

// What a call on a group is checked for, and passed on with, is the whole id.
func TestCallsOnGroupsGoOnWithTheWholeID(t *testing.T) {
	ctx := access.With(t.Context(), access.Caller{Identity: access.Anonymous()})
	var next passedGroups
	var checked []string
	find := func(_ context.Context, id string) (string, string, error) {
		checked = append(checked, id)
		return "mail", "", nil
	}
	refused := errors.New("the store is away")
	g := (&guard.Guard{}).Groups(&next, find, func(_ context.Context, text string) ([]string, error) {
		if text != first[:10] {
			return nil, refused
		}
		return []string{first}, nil
	})
	for _, id := range []string{first[:10], first[:11]} {
		next.got, checked = nil, nil
		var errs []error
		_, err := g.AddMembers(ctx, &kinesinv1.AddMembersRequest{Group: id})
		errs = append(errs, err)
		_, err = g.SealGroup(ctx, &kinesinv1.SealGroupRequest{Group: id})
		errs = append(errs, err)
		_, err = g.CancelGroup(ctx, &kinesinv1.CancelGroupRequest{Group: id})
		errs = append(errs, err)
		_, err = g.GetGroup(ctx, &kinesinv1.GetGroupRequest{Id: id})
		errs = append(errs, err)
		_, err = g.ListMembers(ctx, &kinesinv1.ListMembersRequest{Group: id})
		errs = append(errs, err)
		if id == first[:10] {
			want := slices.Repeat([]string{first}, len(errs))
			if err := errors.Join(errs...); err != nil || !slices.Equal(next.got, want) || !slices.Equal(checked, want) {
				t.Errorf("checked %q, passed on %q: %v", checked, next.got, err)
			}
			continue
		}
		if next.got != nil || slices.ContainsFunc(errs, func(err error) bool { return !errors.Is(err, refused) }) {
			t.Errorf("passed on %q: %v", next.got, errs)
		}
	}
}
