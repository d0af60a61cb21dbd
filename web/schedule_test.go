package web

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

// A form schedules a task as it was typed, once however often it is sent.
func TestATaskIsScheduledFromAForm(t *testing.T) {
	k, fakes := newFakes("mail")
	request := newRequest()
	form := url.Values{
		"lambda": {"mail"}, "payload": {"a\r\nb"}, "when": {" 10m "}, "key": {" order 7"}, "priority": {"high"}, "limit-key": {"acme"}, "collection": {"c"}, "request": {request},
	}
	w := as(k, access.All(), http.MethodPost, "/ui/tasks/new", form)
	if got := fakes.scheduled; w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/tasks/k1new?done=scheduled" ||
		got.GetLambda() != "mail" || string(got.GetPayload()) != "a\nb" || got.GetDelay() != (10*time.Minute).Microseconds() || got.GetDue() != 0 || got.GetKey() != " order 7" ||
		got.GetPriority() != "high" || got.GetLimitKey() != "acme" || got.GetCollection() != "c" || string(got.GetRequestId()) != string(requestID(request)) {
		t.Errorf("%d to %q: %v", w.Code, w.Header().Get("Location"), got)
	}
	form.Set("when", "2027-01-31T09:00:00Z")
	form.Set("zone", "Europe/Paris")
	form.Set("key", "taken")
	w = as(k, access.All(), http.MethodPost, "/ui/tasks/new", form)
	if fakes.scheduled.GetDue() != time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC).UnixMicro() || w.Header().Get("Location") != "/ui/tasks/k1new?done=scheduled-before" {
		t.Errorf("to %q: %v", w.Header().Get("Location"), fakes.scheduled)
	}
	form.Set("when", "2027-01-31  9:00")
	form.Set("on-conflict", "replace")
	w = as(k, access.All(), http.MethodPost, "/ui/tasks/new", form)
	if fakes.scheduled.GetDue() != time.Date(2027, 1, 31, 8, 0, 0, 0, time.UTC).UnixMicro() || fakes.scheduled.GetOnConflict() != "replace" || w.Header().Get("Location") != "/ui/tasks/k1new?done=replaced" {
		t.Errorf("to %q: %v", w.Header().Get("Location"), fakes.scheduled)
	}
	form.Set("zone", "Europe/Bern")
	w = as(k, access.All(), http.MethodPost, "/ui/tasks/new", form)
	if body := w.Body.String(); w.Code != http.StatusBadRequest || !strings.Contains(body, "did you mean") || !strings.Contains(body, `<option selected>replace</option>`) || !strings.Contains(body, `value="Europe/Bern"`) {
		t.Errorf("%d %s", w.Code, body)
	}
}

// What is wrong is said beside its field, and what was typed stays.
func TestAFormSaysBesideTheFieldWhatIsWrong(t *testing.T) {
	for field, c := range map[string]struct {
		when    string
		refusal *kinesinv1.Problem
	}{
		"when":      {when: "tomorow"},
		"priority":  {refusal: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_INVALID, Text: `invalid priority "urgent": lambda mail has high, normal, low`}},
		"key":       {refusal: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_KEY_CONFLICT, Text: "is taken"}},
		"limit-key": {refusal: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_INVALID, Text: "limit key has 300 bytes"}},
		"payload":   {refusal: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_TOO_LARGE, Text: "300000 bytes"}},
		"lambda":    {refusal: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, Text: "there is none"}},
		"":          {refusal: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_FULL, Text: "no space"}},
	} {
		k, fakes := newFakes("mail")
		fakes.refusal = c.refusal
		w := as(k, access.All(), http.MethodPost, "/ui/tasks/new", url.Values{"lambda": {"mail"}, "payload": {"typed <b>"}, "when": {c.when}})
		body := w.Body.String()
		beside := strings.Contains(body, `id="`+field+`-wrong"`) && strings.Count(body, `aria-invalid="true"`) == 1
		if w.Code < 400 || beside != (field != "") || strings.Count(body, `role="alert"`) != 1 || !strings.Contains(body, html.EscapeString("typed <b>")) || !strings.Contains(body, html.EscapeString(c.refusal.GetText())) {
			t.Errorf("%q: %d %s", field, w.Code, body)
		}
	}
}

// The form is there for whoever may schedule, with the lambdas for which they may.
func TestTheFormNeedsTheGrant(t *testing.T) {
	for grant, offered := range map[string]bool{"schedule:mail": true, "schedule:mail:acme": true, "schedule:other": false, "operate:mail": false} {
		k, _ := newFakes("mail")
		grants, err := access.ParseGrants([]string{"read:mail", grant})
		if err != nil {
			t.Fatal(err)
		}
		form := as(k, grants, http.MethodGet, "/ui/tasks/new?lambda=mail", nil)
		if has := strings.Contains(form.Body.String(), "<option selected>mail</option>"); has != offered || (form.Code == http.StatusForbidden) != (grant == "operate:mail") {
			t.Errorf("%s: %d %s", grant, form.Code, form.Body)
		}
		if has := strings.Contains(as(k, grants, http.MethodGet, "/ui/tasks", nil).Body.String(), "/ui/tasks/new"); has != (grant != "operate:mail") {
			t.Errorf("%s: the list of tasks offers it: %v", grant, has)
		}
	}
	k, _ := newFakes("mail")
	k.ReadOnly = true
	if w := as(k, access.All(), http.MethodGet, "/ui/tasks/new", nil); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "read-only") {
		t.Errorf("read-only: %d %s", w.Code, w.Body)
	}
}
