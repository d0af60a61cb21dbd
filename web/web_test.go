package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// evil are texts that would do something if a page took them for markup or script.
var evil = []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</textarea><svg onload=alert(1)>`, `javascript:alert(1)`, "\u202egnp.exe"}

// fakes are services whose every text is one of evil.
type fakes struct {
	kinesinv1connect.UnimplementedTaskServiceHandler

	text    string
	counted atomic.Int64 // calls of Stats
	acted   []string
	reason  string              // of the last call that stops work
	lists   []string            // the orders of all lists
	waits   *kinesinv1.WaitsFor // nil: the task is dead
	many    bool                // lists refuse a bound of what they may read

	payloads     int   // calls that read one
	payloadBytes int64 // size of the payload
	failing      error

	scheduled *kinesinv1.ScheduleItem // last
	refusal   *kinesinv1.Problem      // of what is scheduled

	deadHour, deadDay int64
	failed            float64 // attempts per second
}

func (f *fakes) task() *kinesinv1.Task {
	t := &kinesinv1.Task{
		Id: f.text, Lambda: f.text, State: "dead", Key: f.text, Collection: f.text, Worker: f.text, Tags: map[string]string{f.text: f.text}, Payload: []byte(f.text), Result: []byte(f.text),
		Attempts: []*kinesinv1.Attempt{{Number: 1, Worker: f.text, Start: 1, End: 2, Outcome: "retriable_failure", Error: f.text}}, Due: 1, Started: 2, Ended: 3,
		WaitsFor: &kinesinv1.WaitsFor{Reason: f.text, Text: f.text}, PayloadBytes: 7,
	}
	if f.waits != nil {
		t.State, t.Ended, t.Started, t.WaitsFor = "scheduled", 0, 0, f.waits
	}
	return t
}

func (f *fakes) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	t := f.task()
	t.PayloadBytes = max(f.payloadBytes, t.PayloadBytes)
	if f.payloads += either(r.GetWithPayload(), 1, 0); !r.GetWithPayload() {
		t.Payload = nil
	}
	return &kinesinv1.GetResponse{Results: []*kinesinv1.GetResult{{Task: t}}}, f.failing
}

func (f *fakes) List(_ context.Context, r *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	if f.lists = append(f.lists, r.Order); f.many && r.MaxExamined == 20_000 {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "too many")
	}
	return &kinesinv1.ListResponse{Tasks: []*kinesinv1.Task{f.task()}, Next: nil}, nil
}

func (f *fakes) Stats(context.Context, *kinesinv1.StatsRequest) (*kinesinv1.StatsResponse, error) {
	n, lost := f.counted.Add(1), int64(7)
	return &kinesinv1.StatsResponse{Lambdas: []*kinesinv1.LambdaStats{{
		Lambda: f.text, Tasks: map[string]int64{"scheduled": 2 + n}, DeadHour: f.deadHour, DeadDay: f.deadDay, FailedPerSecond: f.failed,
		HeldBy: []*kinesinv1.HeldBy{{Reason: "no worker", Text: f.text}, {Reason: "unexplained", Text: f.text, Tasks: &lost}},
	}}}, nil
}

func (f *fakes) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	f.scheduled = r.GetItems()[0]
	return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1new", Duplicate: f.scheduled.GetKey() == "taken", Replaced: f.scheduled.GetOnConflict() == "replace", Problem: f.refusal}}}, nil
}

func (f *fakes) Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	f.reason = access.From(ctx).Reason
	f.acted = append(f.acted, r.Ids...)
	return &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{Outcome: "cancelled"}}}, nil
}

type fakeLambdas struct {
	kinesinv1connect.UnimplementedLambdaServiceHandler
	*fakes
}

func (f fakeLambdas) ListLambdas(context.Context, *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	return &kinesinv1.ListLambdasResponse{Lambdas: []*kinesinv1.Lambda{{Name: f.text, Mode: "managed"}}}, nil
}

// fakeSource is an installation with one worker.
type fakeSource struct{ text string }

func (s fakeSource) Fleet(context.Context) (overview.Fleet, error) {
	return overview.Fleet{Workers: []overview.Worker{{ID: s.text, Name: s.text, Owner: s.text, Lambdas: []string{s.text}}}, Moves: []overview.Moved{{Gained: 3}}, Servers: []overview.Server{{Name: s.text, Version: s.text, State: "ready", Alive: true, Partitions: 3}}}, nil
}

func (s fakeSource) Window(time.Duration) overview.Window {
	return overview.Window{Started: 1, Ended: map[string]float64{s.text: 2}}
}
func (fakeSource) Minutes(string, int) []overview.Minute { return nil }
func (fakeSource) Failed(string) (hour, day uint64)      { return 0, 0 }
func (s fakeSource) NewestGroups(context.Context, int) (newest []*kinesinv1.Group, more bool, err error) {
	return []*kinesinv1.Group{{Id: s.text, State: "open", CreatedBy: s.text, Problem: s.text, FollowUps: []*kinesinv1.GroupFollowUp{{Lambda: s.text}}}}, false, nil
}

func (s fakeSource) Forecast(_ context.Context, edges []time.Time, _ int) (overview.Forecast, error) {
	return overview.Forecast{At: edges[0], Edges: edges, Lambdas: []overview.DueOf{{Lambda: s.text, Due: make([]int64, len(edges))}}}, nil
}

func newFakes(text string) (*Console, *fakes) {
	f := &fakes{text: text}
	return New(Config{
		Services: Services{Tasks: f, Lambdas: fakeLambdas{fakes: f}, Inbound: fakeRejected{fakes: f}, Jobs: fakeJobs{fakes: f}},
		Source:   fakeSource{text}, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Version: "1",
	}), f
}

// as asks for a page with grants.
func as(k http.Handler, grants access.Grants, method, target string, form url.Values, headers ...string) *httptest.ResponseRecorder {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, target, body)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Identity: access.Identity{Name: "ada", Grants: grants}})))
	return w
}

var heading = regexp.MustCompile(`<h1[ >]`)

// checkPage fails unless an answer is a page with a policy, one heading, and nothing inline.
func checkPage(t *testing.T, what string, w *httptest.ResponseRecorder) {
	t.Helper()
	body := w.Body.String()
	csp := w.Header().Get("Content-Security-Policy")
	if strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") || !strings.Contains(csp, "default-src 'none'") || w.Header().Get("X-Frame-Options") != "DENY" {
		t.Errorf("%s: policy %q", what, csp)
	}
	if n := len(heading.FindAllString(body, -1)); n != 1 {
		t.Errorf("%s: %d headings", what, n)
	}
	bare := quoted.ReplaceAllString(body, `""`) // values are escaped: no quote is inside them
	for _, found := range []string{inline.FindString(bare), elsewhere.FindString(body)} {
		if found != "" {
			t.Errorf("%s: the page has %q:\n%s", what, found, body)
		}
	}
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	inline    = regexp.MustCompile(`(?i)<script(?:>| [^>]*>[^<])|<[^>]* (?:style|on[a-z]+|hx-on[^=]*)=|<style|<svg onload|<img src=x`)
	elsewhere = regexp.MustCompile(`(?i)(?:href|src|action|hx-get|data-href)="\s*(?:[a-z]+:|//)`)
)

func TestPagesEscapeWhatTheyShow(t *testing.T) {
	for _, text := range evil {
		k, _ := newFakes(text)
		for _, path := range []string{"/ui/", "/ui/tasks?q=" + url.QueryEscape(text), "/ui/tasks/" + url.PathEscape(text) + "?payload=1", "/ui/lambdas?q=" + url.QueryEscape(text), "/ui/workers", "/ui/groups", "/ui/" + url.PathEscape(text), "/ui/tasks?cursor=" + url.QueryEscape(text)} {
			w := as(k, access.All(), "GET", path, nil)
			checkPage(t, fmt.Sprintf("%s of %q", path, text), w)
			if strings.ContainsRune(quoted.ReplaceAllString(w.Body.String(), ""), '\u202e') { // a field has what was typed
				t.Errorf("%s turns the direction of text", path)
			}
		}
		w := as(k, access.All(), "POST", "/ui/tasks", url.Values{"id": {text}, "q": {text}, "action": {"cancel"}, "over": {text}})
		checkPage(t, fmt.Sprintf("the review of %q", text), w)
	}
}

// A form of another site, or of none that says so, changes nothing.
func TestOtherSitesChangeNothing(t *testing.T) {
	k, f := newFakes("mail")
	form := url.Values{"action": {"cancel"}, "reason": {"a test"}}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"}} {
		for _, path := range []string{"/ui/tasks/k1", "/ui/tasks", "/ui/signin", "/ui/signout", "/ui/lambdas/mail", "/ui/crons/c", "/ui/dead", "/ui/jobs/j"} {
			if w := as(k, access.All(), "POST", path, form, headers...); w.Code != http.StatusForbidden {
				t.Errorf("%s with %v: %d", path, headers, w.Code)
			}
		}
	}
	if as(k, access.All(), "GET", "/ui/tasks/k1?action=cancel", nil); len(f.acted) > 0 {
		t.Errorf("a GET or another site cancelled %v", f.acted)
	}
	if w := as(k, access.All(), "POST", "/ui/tasks/k1", form, "Sec-Fetch-Site", "same-origin"); w.Code != http.StatusSeeOther || len(f.acted) != 1 {
		t.Errorf("the console's own form: %d, cancelled %v", w.Code, f.acted)
	}
}

func TestReadOnly(t *testing.T) {
	k, f := newFakes("mail")
	k.ReadOnly = true
	if w := as(k, access.All(), "POST", "/ui/tasks/k1", url.Values{"action": {"cancel"}}); w.Code != http.StatusForbidden || len(f.acted) > 0 {
		t.Errorf("%d, cancelled %v", w.Code, f.acted)
	}
	if body := as(k, access.All(), "GET", "/ui/tasks", nil).Body.String(); strings.Contains(body, "Review") || !strings.Contains(body, "read-only") {
		t.Error("changes are offered:", body)
	}
}

func TestTheFirstPageSaysThatNothingHoldsTasks(t *testing.T) {
	k, _ := newFakes("mail")
	page := as(k, access.All(), "GET", "/ui/", nil).Body.String()
	if _, first, found := strings.Cut(page, "Look at this first"); !found || !strings.Contains(first, "7 tasks of mail should have started, and nothing known holds them.") {
		t.Error("the page does not say it:", page)
	}
}

// A payload is shown to whoever may read it, a large one when it is asked for.
func TestAPayloadIsShownToWhoeverMayReadIt(t *testing.T) {
	for _, c := range []struct {
		grant, query string
		bytes        int64
		shown        bool
		says         string
	}{
		{"*:mail", "", 7, true, "audit log"},
		{"*:mail", "", payloadAtOnceBytesMax, true, "audit log"},
		{"*:mail", "", payloadAtOnceBytesMax + 1, false, "kinesin get mail --payload"},
		{"*:mail", "?payload=show", payloadAtOnceBytesMax + 1, true, "audit log"},
		{"read:mail", "", 7, false, "read-payload"},
	} {
		k, fakes := newFakes("mail")
		fakes.payloadBytes = c.bytes
		grants, err := access.ParseGrants([]string{c.grant})
		if err != nil {
			t.Fatal(err)
		}
		page := as(k, grants, "GET", "/ui/tasks/k1"+c.query, nil).Body.String()
		if shown := fakes.payloads > 0; shown != c.shown || !strings.Contains(page, c.says) {
			t.Errorf("%v: shown %v: %s", c, shown, page)
		}
	}
}

// Actions that one may not do are not offered.
func TestWhatOneMayNotDoIsNotOffered(t *testing.T) {
	k, _ := newFakes("mail")
	grants, err := access.ParseGrants([]string{"read:mail"})
	if err != nil {
		t.Fatal(err)
	}
	task := as(k, grants, "GET", "/ui/tasks/k1", nil).Body.String()
	for _, word := range []string{"Redrive…", "Cancel…", "Run now", "?payload=show"} {
		if strings.Contains(task, word) {
			t.Errorf("a reader is offered %q", word)
		}
	}
	if !strings.Contains(task, "read-payload") {
		t.Error("a reader does not learn what it takes to see the payload")
	}
	if tasks := as(k, grants, "GET", "/ui/tasks", nil).Body.String(); strings.Contains(tasks, "checkbox") {
		t.Error("a reader may select tasks")
	}
	now := as(k, grants, "GET", "/ui/", nil).Body.String()
	if strings.Contains(now, "Installation") || strings.Contains(now, "/ui/workers") || strings.Contains(now, "/ui/audit") || !strings.Contains(now, "/ui/lambdas/mail") {
		t.Error("a reader of one lambda sees more or less than that:", now)
	}
	other, err := access.ParseGrants([]string{"read:bill"})
	if err != nil {
		t.Fatal(err)
	}
	if now = as(k, other, "GET", "/ui/", nil).Body.String(); strings.Contains(now, "/ui/lambdas/mail") {
		t.Error("the live figures of a lambda that may not be read")
	}
	if now = as(k, other, "GET", "/ui/?part=live", nil).Body.String(); strings.Contains(now, "/ui/lambdas/mail") {
		t.Error("the live figures of a lambda that may not be read, in a part")
	}
	for _, path := range []string{"/ui/workers", "/ui/audit", "/ui/plots/rates"} {
		if w := as(k, grants, "GET", path, nil); w.Code != http.StatusForbidden {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// Tasks that died are what to look at first, for those who may see their lambda.
func TestTheFirstPageSaysWhatDied(t *testing.T) {
	other, err := access.ParseGrants([]string{"read:bill", "metrics"})
	if err != nil {
		t.Fatal(err)
	}
	const link = `<a href="/ui/dead?since=1d">`
	tile := func(hour, day int64) string {
		class := map[bool]string{true: " alarm"}[hour > 0]
		if hour == 0 && day > 0 {
			class = " warn"
		}
		return fmt.Sprintf(`<div class="tile%s"><h2>Died</h2><p class="figure">%d<small> last hour</small></p><p class="meta">%s%s dead in the last day</a></p></div>`, class, hour, link, number(day))
	}
	for want, died := range map[string][2]int64{
		link + "61 tasks died in the last hour, 1\u202f061 in the last day.</a>": {61, 1061},
		link + "1 task died in the last hour, 1 in the last day.</a>":            {1, 1},
		link + "61 tasks died in the last day.</a>":                              {0, 61},
		"": {},
	} {
		k, f := newFakes("mail")
		f.deadHour, f.deadDay = died[0], died[1]
		for _, path := range []string{"/ui/", "/ui/?part=live"} {
			seen := as(k, access.All(), "GET", path, nil).Body.String()
			if !strings.Contains(seen, want) || strings.Contains(seen, " died in") != (want != "") || !strings.Contains(seen, tile(died[0], died[1])) {
				t.Errorf("%s with %v: %s", path, died, seen)
			}
			if seen := as(k, other, "GET", path, nil).Body.String(); strings.Contains(seen, " died in") || !strings.Contains(seen, tile(0, 0)) {
				t.Errorf("%s with %v, to somebody else: %s", path, died, seen)
			}
		}
	}
}

// A thousand pages that ask at once cost the services one call.
func TestViewersShareWhatIsLive(t *testing.T) {
	k, f := newFakes("mail")
	for range 1000 {
		if w := as(k, access.All(), "GET", "/ui/?part=live", nil); w.Code != http.StatusOK {
			t.Fatal(w.Code)
		}
	}
	if n := f.counted.Load(); n > 3 {
		t.Errorf("%d calls of Stats for a thousand pages", n)
	}
}

// withSessions lets browsers sign in with one token.
func withSessions(t *testing.T, k *Console, good string) {
	t.Helper()
	ring, err := task.NewKeyring(task.Ring{Keys: []task.Key{{Number: 1, Secret: []byte(strings.Repeat("k", task.TokenKeyBytes))}}, Seals: 1})
	if err != nil {
		t.Fatal(err)
	}
	k.Sessions = sessions.NewRegistry(store.New(mem.New(), store.Config{Clock: k.Clock}), ring.Sessions(), k.Clock, k.Log)
	k.SignIn = func(_ http.ResponseWriter, _ *http.Request, token string) (sessions.Proof, error) {
		switch token {
		case good:
			return sessions.Proof{Token: []byte(token)}, nil
		case "away":
			return sessions.Proof{}, errors.New("the store does not answer")
		}
		return sessions.Proof{}, ErrRefused
	}
}

func TestSessions(t *testing.T) {
	k, _ := newFakes("mail")
	good := strings.Repeat("good", 8)
	withSessions(t, k, good)
	for token, status := range map[string]int{"": 401, "bad": 401, "away": 503} {
		w := as(k, nil, "POST", "/ui/signin", url.Values{"token": {token}})
		checkPage(t, "refused sign-in", w)
		if w.Code != status || len(w.Result().Cookies()) > 0 {
			t.Errorf("token %q: %d, %v", token, w.Code, w.Result().Cookies())
		}
	}
	signedIn := func(value string) bool {
		r := httptest.NewRequest(http.MethodGet, "/ui/", nil)
		r.AddCookie(&http.Cookie{Name: cookiePlain, Value: value})
		_, err := k.Session(r)
		return err == nil
	}
	form := url.Values{"token": {good}, "next": {"/ui/tasks?q=a"}}
	before := as(k, nil, "POST", "/ui/signin", form).Result().Cookies()[0].Value
	for _, sent := range []string{strings.Repeat("A", 43), before} { // an id that somebody else chose, or knows
		w := as(k, nil, "POST", "/ui/signin", form, "Cookie", cookiePlain+"="+sent)
		c := w.Result().Cookies()[0]
		if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/ui/tasks?q=a" || len(w.Result().Cookies()) != 1 || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure || c.Path != "/ui/" {
			t.Errorf("%d to %s: %+v", w.Code, w.Header().Get("Location"), c)
		}
		if c.Value == sent || signedIn(sent) || !signedIn(c.Value) {
			t.Error("signed in under what the browser sent")
		}
		as(k, nil, "POST", "/ui/signout", nil, "Cookie", cookiePlain+"="+c.Value)
		if signedIn(c.Value) {
			t.Error("signed out, and still in")
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/ui/signin", nil)
	r.TLS = &tls.ConnectionState{}
	for _, c := range []*http.Cookie{sessionCookie(r, "x", 1), flowCookie(r, "x", 1)} {
		if !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "__Host-kinesin") || c.Path != "/" || c.Domain != "" {
			t.Errorf("over TLS: %+v", c)
		}
	}
}

func TestNobodyIsSentElsewhere(t *testing.T) {
	for path, want := range map[string]string{
		"/ui/tasks?q=x": "/ui/tasks?q=x", "": "/ui/", "https://evil.example": "/ui/", "//evil.example": "/ui/", "/ui//evil.example": "/ui/", "/ui/signout": "/ui/", `/ui/\evil`: "/ui/", "/v1/tasks": "/ui/", "/ui/\r\nX: y": "/ui/",
	} {
		if got := local(path); got != want {
			t.Errorf("%q leads to %q", path, got)
		}
	}
}

// The first page with all that it needs is small.
func TestFirstPageIsSmall(t *testing.T) {
	k, _ := newFakes("mail")
	w := as(k, access.All(), "GET", "/ui/", nil, "Accept-Encoding", "gzip")
	if w.Header().Get("Content-Encoding") != "gzip" {
		t.Error("not zipped")
	}
	sum := w.Body.Len()
	page := as(k, access.All(), "GET", "/ui/", nil).Body.String()
	found := regexp.MustCompile(`(?:src|href)="(/ui/static/[^"]+)"`).FindAllStringSubmatch(page, -1)
	var paths []string
	for _, f := range found {
		paths = append(paths, f[1])
	}
	slices.Sort(paths)
	if paths = slices.Compact(paths); len(paths) < 5 {
		t.Fatal(paths)
	}
	for _, path := range paths {
		w := as(k, nil, "GET", path, nil, "Accept-Encoding", "gzip")
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		sum += w.Body.Len()
		if again := as(k, nil, "GET", path, nil, "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
			t.Errorf("%s again: %d", path, again.Code)
		}
	}
	if sum > 150_000 {
		t.Errorf("%d bytes over the wire", sum)
	}
	t.Logf("%d bytes over the wire", sum)
}

// An error of the inside is not shown.
func TestInternalErrorsAreNotShown(t *testing.T) {
	k, f := newFakes("mail")
	f.failing = errors.New("secret of the inside")
	w := as(k, access.All(), "GET", "/ui/tasks/k1", nil)
	if checkPage(t, "internal", w); w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 s", 500 * time.Microsecond: "0.50 ms", 3400 * time.Microsecond: "3.4 ms", 90 * time.Millisecond: "90 ms", 1500 * time.Millisecond: "1.5 s", 90 * time.Second: "1 min 30 s", 2 * time.Hour: "2 h", 50 * time.Hour: "2 d 2 h", -time.Second: "−1.0 s",
	} {
		if got := durationText(d); got != want {
			t.Errorf("%v is shown as %q, want %q", d, got, want)
		}
	}
	for text, want := range map[string]time.Duration{"3d": 72 * time.Hour, "90s": 90 * time.Second} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "9", "1e99d", "NaNd", "-1h", "-3d"} {
		if got, err := parseDuration(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
	for data, kind := range map[string]string{`{"a":1}`: "JSON", "hello": "text", "\xff\x00": "bytes", "": "text"} {
		if c := contentOf([]byte(data)); c.Kind != kind {
			t.Errorf("%q is shown as %s", data, c.Kind)
		}
	}
}

// The first page counts anew, few rows, what was counted long ago; it shows what was counted a moment ago.
func TestTheFirstPageShowsNoOldForecast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, _ := newFakes("x")
		began := k.Clock.Now().Time()
		counted := func(first bool, want time.Duration) {
			t.Helper()
			if got := k.live.due(first).At.Sub(began); got != want {
				t.Errorf("it was counted after %v, want %v", got, want)
			}
		}
		counted(true, 0)
		time.Sleep(time.Second)
		counted(false, time.Second)
		time.Sleep(forecastEvery - time.Second)
		counted(true, time.Second)
		time.Sleep(time.Hour)
		counted(true, time.Hour+forecastEvery)
	})
}
