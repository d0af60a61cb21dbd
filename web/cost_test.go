package web

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// meteredSource is an installation whose store bills reads.
type meteredSource struct{ fakeSource }

func (s meteredSource) Fleet(ctx context.Context) (overview.Fleet, error) {
	f, err := s.fakeSource.Fleet(ctx)
	f.Store.Metered = true
	return f, err
}

// Where reads cost money a page says what it would read, and reads it when that is confirmed.
func TestScansAreConfirmedWhereReadsCostMoney(t *testing.T) {
	for _, metered := range []bool{true, false} {
		k, _ := newFakes("text")
		if metered {
			k.Source = meteredSource{fakeSource{"text"}}
		}
		for path, scans := range map[string]bool{
			"/ui/tasks": false,
			"/ui/tasks?q=" + url.QueryEscape("lambda=mail"):        false,
			"/ui/tasks?q=" + url.QueryEscape("state=dead"):         true,
			"/ui/tasks?order=-ended":                               true,
			"/ui/tasks?order=-created":                             true,
			"/ui/tasks?order=-created&q=lambda%3Dmail":             true,
			"/ui/tasks?order=live":                                 false,
			"/ui/groups":                                           true,
			"/ui/groups?scan=yes":                                  false,
			"/ui/tasks?order=-ended&scan=yes":                      false,
			"/ui/tasks?scan=yes&q=" + url.QueryEscape("key=order"): false,
		} {
			w := as(k, access.All(), http.MethodGet, path, nil)
			if asks := strings.Contains(w.Body.String(), "This reads many rows"); w.Code != http.StatusOK || asks != (scans && metered) {
				t.Errorf("metered %v, %s: %d, asks %v", metered, path, w.Code, asks)
			}
		}
	}
}

// A link to a trace has the id of the trace, and nothing else that a task may say.
func TestTraceLinks(t *testing.T) {
	k, _ := newFakes("text")
	k.TraceURL = "https://traces.example/trace/{trace_id}"
	c := &call{Console: k, r: httptest.NewRequest(http.MethodGet, "/ui/", nil)}
	for parent, want := range map[string]string{
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01": "https://traces.example/trace/0af7651916cd43dd8448eb211c80319c",
		"00-0af7651916cd43dd8448eb211c8031/x-b7ad6b7169203331-01": "",
		"": "", "00-abc": "", "<script>": "",
	} {
		if got := c.traceURL(&kinesinv1.Task{Traceparent: parent}); got != want {
			t.Errorf("%q leads to %q, want %q", parent, got, want)
		}
	}
}

// The rest of a budget is told as exactly as it takes.
func TestBudgets(t *testing.T) {
	for percent, want := range map[float64]string{100: "100.0 %", 99.95: "99.950 %", 25: "25.0 %", 0: "0.0 %", -40: "−40.0 %"} {
		if got := percentText(percent); got != want {
			t.Errorf("%v is %q, want %q", percent, got, want)
		}
	}
}

// A preview tells what becomes of a time that clocks skip or show twice.
func TestPreviewsHaveTheChangeOfClocks(t *testing.T) {
	k, _ := newFakes("text")
	w := as(k, access.All(), http.MethodGet, "/ui/crons/preview?schedule="+url.QueryEscape("30 2 * * *")+"&zone=Europe/Paris", nil)
	if body := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(body, "change of clocks") || !strings.Contains(body, " CET") || !strings.Contains(body, " CEST") {
		t.Errorf("%d: %s", w.Code, body)
	}
	w = as(k, access.All(), http.MethodGet, "/ui/crons/preview?schedule="+url.QueryEscape("30 2 * * *"), nil)
	if strings.Contains(w.Body.String(), "change of clocks") {
		t.Error("UTC has none")
	}
}
