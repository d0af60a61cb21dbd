package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Every reason has a status of its own kind, and one that nobody gave a status stands out as an internal
// error.
func TestEveryReasonHasAStatus(t *testing.T) {
	for number, name := range kinesinv1.Reason_name {
		reason := kinesinv1.Reason(number)
		p := api.HTTPProblemOf(&kinesinv1.Problem{Reason: reason, Text: "why"})
		isInternal := reason == kinesinv1.Reason_REASON_INTERNAL || reason == kinesinv1.Reason_REASON_UNSPECIFIED
		if (p.Status == http.StatusInternalServerError) != isInternal || p.Status < 400 || p.Detail != "why" || http.StatusText(p.Status) == "" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestProblemsSayWhenToTryAgain(t *testing.T) {
	for _, c := range []struct {
		err              error
		status           int
		inHeader, inBody string
	}{
		{api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "x"), 503, "1", "1s"},
		{api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "x").After(2500 * time.Millisecond), 503, "3", "2.5s"},
		{api.Errorf(kinesinv1.Reason_REASON_FULL, "x").After(time.Second), 429, "1", "1s"},
		{api.ErrFull, 507, "", ""},
		{api.ErrInvalid, 400, "", ""},
	} {
		w := httptest.NewRecorder()
		api.HTTPProblemOf(api.ProblemOf(c.err)).Write(w)
		var got api.HTTPProblem
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || got.Status != c.status || w.Header().Get("Retry-After") != c.inHeader || got.RetryAfter != c.inBody {
			t.Errorf("%v: %d, Retry-After %q, %+v", c.err, w.Code, w.Header().Get("Retry-After"), got)
		}
	}
}

// The bodies of the plain API are bounded by their paths.
func TestPathsOfThePlainAPIHaveLimits(t *testing.T) {
	for path, want := range map[string]int{
		"/v1/lambdas": 512 << 10, "/v1/lambdas/a": 512 << 10, "/v1/jobs": 512 << 10, "/v1/lambdas/a/tasks": 8 << 20,
		"/v1/lambdas/a/keys/b/redrive": 8 << 20, "/v1/tasks/x": 8 << 20, "/v1/work/results": 12 << 20,
	} {
		if got := api.RequestBytesMax(path); got != want {
			t.Errorf("%s: %d, want %d", path, got, want)
		}
	}
}
