package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

type fakeRejected struct {
	kinesinv1connect.UnimplementedInboundServiceHandler
	*fakes
}

func (f fakeRejected) DeleteRejected(ctx context.Context, r *kinesinv1.DeleteRejectedRequest) (*kinesinv1.DeleteRejectedResponse, error) {
	f.reason = access.From(ctx).Reason
	f.acted = append(f.acted, r.Names...)
	return &kinesinv1.DeleteRejectedResponse{}, nil
}

type fakeJobs struct {
	kinesinv1connect.UnimplementedJobServiceHandler
	*fakes
}

func (f fakeJobs) ControlJob(ctx context.Context, r *kinesinv1.ControlJobRequest) (*kinesinv1.ControlJobResponse, error) {
	f.reason = access.From(ctx).Reason
	f.acted = append(f.acted, r.Action)
	return &kinesinv1.ControlJobResponse{}, nil
}

type fakeQuotas struct {
	kinesinv1connect.UnimplementedQuotaServiceHandler

	set **kinesinv1.SetQuotaRequest
}

func (f fakeQuotas) SetQuota(_ context.Context, r *kinesinv1.SetQuotaRequest) (*kinesinv1.SetQuotaResponse, error) {
	*f.set = r
	return &kinesinv1.SetQuotaResponse{}, api.CheckMask(r)
}

// The form of quotas sets what is typed, and takes away what is ticked.
func TestTheFormOfQuotas(t *testing.T) {
	k, _ := newFakes("text")
	var set *kinesinv1.SetQuotaRequest
	k.Quotas = fakeQuotas{set: &set}
	form := url.Values{"action": {"quota"}, "rate": {"0.5"}, "concurrency": {""}, "no-concurrency": {"yes"}}
	want := &kinesinv1.SetQuotaRequest{Lambda: "mail", Rate: 0.5, Fields: []string{"concurrency", "rate"}}
	if w := as(k, access.All(), http.MethodPost, "/ui/lambdas/mail", form); w.Code != http.StatusSeeOther || !proto.Equal(set, want) {
		t.Errorf("%d, %v, want %v", w.Code, set, want)
	}
	for _, bad := range []url.Values{{"rate": {"0"}}, {"rate": {"5"}, "no-rate": {"yes"}}, {"concurrency": {"-1"}}, {"concurrency": {"0.5"}}} {
		bad.Set("action", "quota")
		if w := as(k, access.All(), http.MethodPost, "/ui/lambdas/mail", bad); w.Code != http.StatusBadRequest {
			t.Errorf("%v: %d", bad, w.Code)
		}
	}
}

// Whoever stops a job or deletes what was rejected says why, which the audit log gets.
func TestStoppingAJobAndDeletingRejectedMessagesAskForAReason(t *testing.T) {
	for path, form := range map[string]url.Values{
		"/ui/jobs/j1": {"action": {"stop"}},
		"/ui/dead":    {"action": {"delete"}, "name": {"n1"}},
	} {
		k, f := newFakes("text")
		if w := as(k, access.All(), http.MethodPost, path, form); w.Code != http.StatusBadRequest || len(f.acted) > 0 || !strings.Contains(w.Body.String(), "say why") || !strings.Contains(w.Body.String(), `<a href="`+path+`">Back to the page</a>`) {
			t.Errorf("%s without a reason: %d, %v", path, w.Code, f.acted)
		}
		form.Set("reason", "a mistake")
		if w := as(k, access.All(), http.MethodPost, path, form); w.Code != http.StatusSeeOther || len(f.acted) != 1 || f.reason != "a mistake" {
			t.Errorf("%s: %d, %v because %q", path, w.Code, f.acted, f.reason)
		}
	}
}

// The newest tasks come first. Where that would read much, live ones do, and a link asks for the newest.
func TestTasksComeNewestFirst(t *testing.T) {
	const says = `href="/ui/tasks?order=-created&amp;q=lambda%3Dmail"`
	for _, c := range []struct {
		many, metered bool
		path          string
		want          []string
		says          bool
	}{
		{path: "/ui/tasks?q=lambda%3Dmail", want: []string{"-created"}},
		{path: "/ui/tasks?q=lambda%3Dmail", many: true, want: []string{"-created", ""}, says: true},
		{path: "/ui/tasks?q=lambda%3Dmail", metered: true, want: []string{""}, says: true},
		{path: "/ui/tasks?q=lambda%3Dmail&order=-created", many: true, want: []string{"-created"}},
		{path: "/ui/tasks?q=lambda%3Dmail&order=live", want: []string{""}},
		{path: "/ui/tasks?q=lambda%3Dmail&order=due", want: []string{"due"}},
	} {
		k, f := newFakes("text")
		f.many = c.many
		if c.metered {
			k.Source = meteredSource{fakeSource{"text"}}
		}
		w := as(k, access.All(), http.MethodGet, c.path, nil)
		if w.Code != http.StatusOK || !slices.Equal(f.lists, c.want) || strings.Contains(w.Body.String(), says) != c.says {
			t.Errorf("%+v: %d, orders %q, %s", c, w.Code, f.lists, w.Body)
		}
	}
}
