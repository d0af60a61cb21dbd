package web

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

// fakeAudit has pages of records without end, of which every hundredth is of ada.
type fakeAudit struct {
	kinesinv1connect.UnimplementedAccessServiceHandler

	calls int
}

func (f *fakeAudit) ListAudit(_ context.Context, r *kinesinv1.ListAuditRequest) (*kinesinv1.ListAuditResponse, error) {
	f.calls++
	all := &kinesinv1.ListAuditResponse{Next: fmt.Sprint("page", f.calls)}
	for i := range r.GetLimit() {
		who := "bob"
		if i%100 == 0 {
			who = "Ada"
		}
		all.Records = append(all.Records, &kinesinv1.AuditRecord{At: 1, Identity: who, Action: "lambda.update", Target: "mail", Outcome: "ok"})
	}
	return all, nil
}

func TestTheAuditPageIsFiltered(t *testing.T) {
	for _, c := range []struct {
		query       string
		rows, calls int
		next        string
	}{
		{"", 200, 1, "after=page1&amp;since=24h"},
		{"?who=ada&did=UPDATE&to=ma&since=7d", 100, 10, "after=page10&amp;did=UPDATE&amp;since=7d&amp;to=ma&amp;who=ada"},
		{"?who=bob", 990, 1, "after=page1"},
		{"?who=ada&to=push", 0, 10, "after=page10"},
	} {
		k, _ := newFakes("text")
		audit := &fakeAudit{}
		k.Access = audit
		w := as(k, access.All(), http.MethodGet, "/ui/audit"+c.query, nil)
		if rows := strings.Count(w.Body.String(), "lambda.update"); rows != c.rows || audit.calls != c.calls || !strings.Contains(w.Body.String(), c.next) {
			t.Errorf("%s: %d, %d rows by %d calls: %s", c.query, w.Code, rows, audit.calls, w.Body)
		}
	}
}
