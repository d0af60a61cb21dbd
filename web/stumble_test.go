package web

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// An id of each form that is pasted into the filter opens its task; a filter does not.
func TestPastedID(t *testing.T) {
	k, _ := newFakes("mail")
	for _, form := range []string{"k1", "k2", "k3", "q1", "q2"} {
		id := form + "AZLwwSo7fE2OX2BxgpOktQGLz-VoewAA_ABw"
		if w := as(k, access.All(), "GET", "/ui/tasks?q="+id, nil); w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/tasks/"+id {
			t.Errorf("%s: %d to %q", id, w.Code, w.Header().Get("Location"))
		}
	}
	for _, filter := range []string{"k1", "key=k1AZLwwSo7fE2OX2BxgpOktQGLz", "lambda%3Dk1"} {
		if w := as(k, access.All(), "GET", "/ui/tasks?q="+filter, nil); w.Code != http.StatusOK {
			t.Errorf("the filter %s: %d", filter, w.Code)
		}
	}
}

// Words that are no comparison are looked for, each of them, in all texts of a task, and the beginning of an id opens the
// task that alone has it.
func TestSearchByAnyWord(t *testing.T) {
	k, fakes := newFakes("mail")
	for q, filter := range map[string]string{
		"acme": `any~"acme"`, "refused  acme": `any~"refused" and any~"acme"`, `"7"`: `any~"\"7\""`, "state": `any~"state"`, "k1": `any~"k1"`,
		"state=dead": "", `key~"acme"`: "", "state == x": "", "lambda in (a, b)": "", "": "",
	} {
		w := as(k, access.All(), "GET", "/ui/tasks?q="+url.QueryEscape(q), nil)
		said := strings.Contains(w.Body.String(), "Looked for in ids")
		if said != (filter != "") || !strings.Contains(w.Body.String(), html.EscapeString(filter)) {
			t.Errorf("%q: want the filter %q: %s", q, filter, w.Body)
		}
	}
	const short = "k1AZLwwSo7fE"
	if w := as(k, access.All(), "GET", "/ui/tasks?q="+short, nil); w.Header().Get("Location") != "/ui/tasks/mail" {
		t.Errorf("%s leads to %q", short, w.Header().Get("Location"))
	}
	fakes.failing = api.Errorf(kinesinv1.Reason_REASON_INVALID, "several tasks begin so")
	if w := as(k, access.All(), "GET", "/ui/tasks?q="+short, nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), html.EscapeString(`any~"^`+short+`"`)) {
		t.Errorf("several tasks: %d %s", w.Code, w.Body)
	}
	if body := as(k, access.All(), "GET", "/ui/tasks?q=acme", nil).Body.String(); !strings.Contains(body, `<input type="hidden" name="q" value="`+html.EscapeString(`any~"acme"`)+`">`) {
		t.Errorf("an action on what was found goes on with another filter: %s", body)
	}
}

// The list says in a few words why a task waits, and shows as much of its id as tells it from the others.
func TestWhyTasksInTheListWait(t *testing.T) {
	for reason, want := range map[string]string{"gate": "a gate holds it", "quota": "for its quota", "no worker": "for a worker: there is none", "other": "other"} {
		if got := waitText(&kinesinv1.WaitsFor{Reason: reason}); got != want {
			t.Errorf("%s: %q, want %q", reason, got, want)
		}
	}
	const id = "k1AZLwwSo7fE2OX2BxgpOktQGLz"
	k, fakes := newFakes(id)
	fakes.waits = &kinesinv1.WaitsFor{Reason: "gate", Text: "paused"}
	body := as(k, access.All(), "GET", "/ui/tasks", nil).Body.String()
	short := `title="` + id + `">` + id[:14] + "</a>"
	for _, want := range []string{short, "a gate holds it", id + "=" + id} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in %s", want, body)
		}
	}
	if body := as(k, access.All(), "GET", "/ui/groups", nil).Body.String(); !strings.Contains(body, short) {
		t.Errorf("the list of groups has long ids: %s", body)
	}
}

// The rejected messages of an inbound queue.
type fakeInbound struct {
	kinesinv1connect.UnimplementedInboundServiceHandler
}

func (fakeInbound) GetRejected(context.Context, *kinesinv1.GetRejectedRequest) (*kinesinv1.GetRejectedResponse, error) {
	return &kinesinv1.GetRejectedResponse{Rejected: &kinesinv1.Rejected{Name: "one", Body: []byte("x")}}, nil
}

func (fakeInbound) ListRejected(context.Context, *kinesinv1.ListRejectedRequest) (*kinesinv1.ListRejectedResponse, error) {
	return &kinesinv1.ListRejectedResponse{Rejected: []*kinesinv1.Rejected{{Name: "one"}}, More: true}, nil
}

func TestDeadLettersSayThatThereAreMore(t *testing.T) {
	k, _ := newFakes("mail")
	k.Inbound = fakeInbound{}
	if body := as(k, access.All(), "GET", "/ui/dead", nil).Body.String(); !strings.Contains(body, "These are the first 1. All:") {
		t.Error("nothing says that more messages were rejected")
	}
}

// No page of a read-only console has a form that changes anything.
func TestReadOnlyHasNoForms(t *testing.T) {
	k, _ := newFakes("mail")
	k.Inbound = fakeInbound{}
	forms := func(path string) int {
		w := as(k, access.All(), "GET", path, nil)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
		return strings.Count(w.Body.String(), `method="post"`)
	}
	pages := []string{"/ui/tasks", "/ui/tasks/k1", "/ui/dead", "/ui/dead/rejected/one"}
	for _, path := range pages {
		if forms(path) == 0 {
			t.Errorf("%s has no form for whoever may change something", path)
		}
	}
	k.ReadOnly = true
	for _, path := range pages {
		if n := forms(path); n > 0 {
			t.Errorf("%s has %d forms", path, n)
		}
	}
}

// An attempt that was lost before it began has no duration, and the others share the time that they took.
func TestAttemptsThatNeverBegan(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	at := func(seconds int64) int64 { return now.Add(time.Duration(seconds) * time.Second).UnixMicro() }
	tries := triesOf(&kinesinv1.Task{Attempts: []*kinesinv1.Attempt{{Number: 1, End: at(-5)}, {Number: 2, Start: at(-4), End: at(-2)}, {Number: 3, Start: at(-1)}}}, now)
	if tries[0].Took != "–" || tries[0].W != 0 || tries[1].Took != "2.0 s" || tries[1].X != 0 || tries[1].W != 500 || !tries[2].Running {
		t.Errorf("%+v", tries)
	}
}

// Whoever waits for his start is late by now; who never will be is not.
func TestLateness(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	due := now.Add(-time.Minute).UnixMicro()
	for want, task := range map[string]*kinesinv1.Task{
		"1 min": {Due: due}, "5.0 s": {Due: due, Started: due + 5e6, Ended: due + 6e6}, "–": {Due: due, Ended: due + 6e6},
	} {
		if got := lateness(task, now); got != want {
			t.Errorf("%v: %q, want %q", task, got, want)
		}
	}
	if got := lateness(&kinesinv1.Task{Due: now.Add(time.Hour).UnixMicro()}, now); got != "–" {
		t.Errorf("of what is not due: %q", got)
	}
}

// A half hour begins with what is due at midnight; a page says what cannot be counted.
func TestHalfHours(t *testing.T) {
	k, _ := newFakes("mail")
	now := time.Date(2027, 1, 1, 23, 47, 12, 0, time.UTC)
	edges := forecastEdges(now)
	midnight := time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)
	f := &overview.Forecast{At: now, Edges: edges, Lambdas: []overview.DueOf{{Lambda: "mail", Due: make([]int64, len(edges))}, {Lambda: "sms", Due: make([]int64, len(edges)), Until: now.Add(time.Hour)}}}
	for i, edge := range edges {
		if i > 0 && !edges[i-1].Before(midnight) && edges[i-1].Before(midnight.Add(forecastStep)) {
			f.Lambdas[0].Due[i] += 3
		}
		if edge.Equal(midnight) {
			f.Lambdas[1].Due[i] = 7
		}
	}
	f.Lambdas[0].Due[0] = 1000 // overdue
	c := &call{Console: k, caller: access.Caller{Identity: access.Identity{Grants: access.All()}}}
	halves, until := c.halfHours(f)
	if len(halves) != 49 || !until.Equal(now.Add(time.Hour)) {
		t.Fatalf("%d half hours until %v", len(halves), until)
	}
	if first := halves[0]; !first.From.Equal(now) || !first.To.Equal(midnight) || first.Due != 7 || first.Most || len(first.Lambdas) != 1 || first.Lambdas[0] != (dueOf{Lambda: "sms", Due: 7}) {
		t.Errorf("the first: %+v", first)
	}
	if next := halves[1]; !next.From.Equal(midnight) || next.Due == 0 || next.Most || next.Where != "due>=2027-01-02T00:00:00Z and due<2027-01-02T00:30:00Z and state in (scheduled, enqueued, retriable_failure)" {
		t.Errorf("from midnight: %+v", next)
	}
	if last := halves[48]; last.Due != 0 || !last.Most || !last.To.Equal(now.Add(forecastAhead)) {
		t.Errorf("the last: %+v", last)
	}
	reader, err := access.ParseGrants([]string{"read:mail"})
	if err != nil {
		t.Fatal(err)
	}
	c.caller.Grants = reader
	if halves, until := c.halfHours(f); halves[0].Due != 0 || !until.IsZero() || len(halves[0].Lambdas) != 0 {
		t.Errorf("a reader of mail sees %+v", halves[0])
	}
}

// The bars of the plot are half hours of clocks, all as wide.
func TestBarsAreHalfHours(t *testing.T) {
	k, _ := newFakes("mail")
	var p plot
	if err := json.Unmarshal(as(k, access.All(), "GET", "/ui/plots/forecast", nil).Body.Bytes(), &p); err != nil || len(p.Times) < 48 {
		t.Fatalf("%v: %+v", err, p)
	}
	for i, at := range p.Times {
		if at != p.Times[0]+int64(i)*1800 || at%1800 != 0 {
			t.Errorf("bar %d is at %d", i, at)
		}
	}
}

// Budgets that are used up, or soon are, are said in words.
func TestBurning(t *testing.T) {
	of := func(left, rate float64) *kinesinv1.ObjectiveStatus {
		return &kinesinv1.ObjectiveStatus{Objective: &kinesinv1.Objective{Lambda: "push", Within: 5e6}, Attained: 90, BudgetLeft: left, Burns: []*kinesinv1.Burn{{Over: 3600e6, Rate: rate}}}
	}
	for _, c := range []struct {
		left, rate           float64
		says, short, through string
	}{
		{0.8, 1, "", "80.0 %", "80.0 % of the error budget left"},
		{0.8, 20, "push burns its error budget 20.0 times as fast", "80.0 %", "80.0 % of the error budget left"},
		{0, 1, "push has used up its error budget: 90.0 %", "none", "the error budget is used up"},
		{-9, 0, "push has used up its error budget", "used 10.0×", "the error budget is used 10.0 times over"},
	} {
		if got := burning(of(c.left, c.rate)); !strings.HasPrefix(got, c.says) || c.says == "" && got != "" {
			t.Errorf("%v left: says %q", c.left, got)
		}
		if o := objectiveOf(of(c.left, c.rate)); o.Left != c.short || o.Budget != c.through {
			t.Errorf("%v left: %q, %q", c.left, o.Left, o.Budget)
		}
	}
}

// Whoever cancels says why, which the audit log gets.
func TestCancelAsksForAReason(t *testing.T) {
	k, f := newFakes("mail")
	for path, form := range map[string]url.Values{"/ui/tasks/k1": {"action": {"cancel"}}, "/ui/tasks": {"action": {"cancel"}, "id": {"k1"}, "confirmed": {"yes"}}} {
		if w := as(k, access.All(), "POST", path, form); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "say why") || len(f.acted) > 0 {
			t.Errorf("%s without a reason: %d, cancelled %v", path, w.Code, f.acted)
		}
		form.Set("reason", strings.Repeat("r", 513))
		if w := as(k, access.All(), "POST", path, form); w.Code != http.StatusBadRequest || len(f.acted) > 0 {
			t.Errorf("%s with a long reason: %d, cancelled %v", path, w.Code, f.acted)
		}
		form.Set("reason", "sent twice")
		if w := as(k, access.All(), "POST", path, form); w.Code >= http.StatusBadRequest || len(f.acted) != 1 || f.reason != "sent twice" {
			t.Errorf("%s: %d, cancelled %v because %q", path, w.Code, f.acted, f.reason)
		}
		f.acted = nil
	}
}

// Only the times that the page offers are taken.
func TestDeadSince(t *testing.T) {
	k, _ := newFakes("mail")
	k.Inbound = fakeInbound{}
	if w := as(k, access.All(), "GET", "/ui/dead?since=12h&q=lambda%3Dmail", nil); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `state=dead and ended&gt;-12h and (lambda=mail)`) {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
	if w := as(k, access.All(), "GET", "/ui/dead?since=1h)or", nil); w.Code != http.StatusBadRequest {
		t.Errorf("%d", w.Code)
	}
}

// A task that nobody claimed is sent again, and only the last time is known: the timeline does not say that
// it was sent so late.
func TestStepsSayWhichSendIsShown(t *testing.T) {
	due := time.Unix(1_800_000_000, 0)
	after := func(d time.Duration) int64 { return due.Add(d).UnixMicro() }
	for want, task := range map[string]*kinesinv1.Task{
		"Sent to its queue":      {State: "enqueued", Due: after(0), Enqueued: after(time.Second)},
		"Last sent to its queue": {State: "enqueued", Due: after(0), Enqueued: after(15 * time.Second)},
	} {
		if steps := stepsOf(task, due.Add(time.Hour)); !slices.ContainsFunc(steps, func(s step) bool { return s.Name == want }) {
			t.Errorf("want %q in %+v", want, steps)
		}
	}
}

// The page of a lambda has all of its settings, and of one that delivers none that does not apply.
func TestSettingsOfALambda(t *testing.T) {
	page := func(l *kinesinv1.Lambda) string {
		var b strings.Builder
		if err := lambdaPage(&lambdaBody{Lambda: l}).Render(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	managed := page(&kinesinv1.Lambda{Mode: "managed", Priorities: []string{"high", "low"}, PriorityWeights: map[string]uint32{"high": 8, "low": 1}, Retention: 60e6, KeyRetention: 5e6, Withdrawn: true})
	for _, want := range []string{"high 8, low 1", "3 attempts in a row lost", "a key for 5.0 s", "withdrawn"} {
		if !strings.Contains(managed, want) {
			t.Errorf("no %q", want)
		}
	}
	if deliver := page(&kinesinv1.Lambda{Mode: "deliver", MaxAttempts: 10}); strings.Contains(deliver, "Backoff") || strings.Contains(deliver, "Poison") {
		t.Error("a lambda that delivers has attempts")
	}
}

func TestShownFields(t *testing.T) {
	t.Parallel()
	var got strings.Builder
	if err := shown(&kinesinv1.Task{Key: "k-7", Collection: "eu", LimitKey: "<acme>"}, "key").Render(&got); err != nil {
		t.Fatal(err)
	}
	if want := "<div><dt>Collection</dt><dd>eu</dd></div><div><dt>Limit key</dt><dd>&lt;acme&gt;</dd></div>"; got.String() != want {
		t.Errorf("got %s, want %s", got.String(), want)
	}
}
