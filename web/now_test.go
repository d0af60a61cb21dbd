package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// failingSource is an installation of so many servers in which a lambda fails.
type failingSource struct {
	fakeSource

	minutes []overview.Minute
	servers int
}

func (s failingSource) Fleet(ctx context.Context) (overview.Fleet, error) {
	f, err := s.fakeSource.Fleet(ctx)
	f.Servers = slices.Repeat(f.Servers, s.servers)
	f.Store = overview.Store{Full: true, Damaged: []string{"000007.sst"}}
	return f, err
}

func (s failingSource) Minutes(string, int) []overview.Minute { return s.minutes }
func (failingSource) Failed(string) (hour, day uint64)        { return 33, 41 }

type fakeGates struct {
	kinesinv1connect.UnimplementedGateServiceHandler

	all  []*kinesinv1.Gate
	acts []string
}

func (f *fakeGates) did() string { return strings.Join(f.acts, "; ") }

func (f *fakeGates) SetGate(_ context.Context, r *kinesinv1.SetGateRequest) (*kinesinv1.SetGateResponse, error) {
	g := r.GetGate()
	if len(r.GetRequestId()) == 0 || r.GetDryRun() {
		return nil, errors.New("a call that may not be repeated, or sets nothing")
	}
	f.acts = append(f.acts, strings.Join([]string{"set", g.GetAction(), g.GetLambda(), g.GetTag(), g.GetReason()}, " "))
	return &kinesinv1.SetGateResponse{Gate: g}, nil
}

func (f *fakeGates) GetGate(context.Context, *kinesinv1.GetGateRequest) (*kinesinv1.GetGateResponse, error) {
	return &kinesinv1.GetGateResponse{Gate: f.all[0]}, nil
}

func (f *fakeGates) ResumeGate(_ context.Context, r *kinesinv1.ResumeGateRequest) (*kinesinv1.ResumeGateResponse, error) {
	f.acts = append(f.acts, "resume "+r.GetId())
	return &kinesinv1.ResumeGateResponse{}, nil
}

func (f *fakeGates) ListGates(context.Context, *kinesinv1.ListGatesRequest) (*kinesinv1.ListGatesResponse, error) {
	return &kinesinv1.ListGatesResponse{Gates: f.all}, nil
}

type fakeAccess struct {
	kinesinv1connect.UnimplementedAccessServiceHandler

	records []*kinesinv1.AuditRecord
}

func (f fakeAccess) ListAudit(context.Context, *kinesinv1.ListAuditRequest) (*kinesinv1.ListAuditResponse, error) {
	return &kinesinv1.ListAuditResponse{Records: f.records}, nil
}

// The first page says what changed in the last hour, to those who may know it.
func TestTheFirstPageSaysWhatChanged(t *testing.T) {
	k, _ := newFakes("mail")
	ago := func(d time.Duration) int64 { return time.Now().Add(-d).UnixMicro() }
	k.Gates = &fakeGates{all: []*kinesinv1.Gate{
		{Action: "pause", Lambda: "mail", Owner: "ada", Reason: "a bad deploy", Created: ago(time.Minute)},
		{Action: "pause", Lambda: "mail", Owner: "eve", Reason: "a late reason", Created: ago(5 * time.Minute)},
		{Action: "pause", Lambda: "mail", Owner: "dan", Reason: unsaid, Created: ago(6 * time.Minute), Ended: ago(4 * time.Minute), EndedBy: "eve"},
		{Action: "drop", Lambda: "mail", Tag: "customer=7", Owner: "ada", Reason: "spam", Created: ago(2 * time.Hour), Ended: ago(2 * time.Minute), EndedBy: "bob"},
		{Action: "pause", Lambda: "mail", Owner: "eve", Reason: "of yesterday", Created: ago(24 * time.Hour)},
		{Action: "pause", Lambda: "bill", Owner: "eve", Reason: "a secret", Created: ago(time.Minute)},
	}}
	k.Access = fakeAccess{records: []*kinesinv1.AuditRecord{
		{Action: "lambda.update", Target: "mail", Identity: "bob", Outcome: "ok", At: ago(3 * time.Minute)},
		{Action: "lambda.update", Target: "bill", Identity: "mallory", Outcome: "denied", At: ago(3 * time.Minute)},
		{Action: "cron.pause", Target: "nightly", Identity: "bob", Outcome: "ok", At: ago(3 * time.Minute)},
		{Action: "task.read_payload", Target: "mail", Identity: "carol", Outcome: "ok", At: ago(3 * time.Minute)},
	}}
	mine := []string{"mail was paused by ada: a bad deploy", "mail was resumed by bob", "mail was paused by dan: a late reason"}
	admins := []string{"The settings of mail changed by bob", "Cron nightly was paused by bob", "bill was paused by eve: a secret"}
	reader, err := access.ParseGrants([]string{"read:mail"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		who      string
		grants   access.Grants
		has, not []string
	}{
		{"an administrator", access.All(), append(mine, admins...), nil},
		{"a reader", reader, mine, admins},
	} {
		page := as(k, c.grants, "GET", "/ui/", nil).Body.String()
		_, told, _ := strings.Cut(page, "Changed in the last hour")
		told, _, _ = strings.Cut(told, "</ul>")
		for _, want := range c.has {
			if !strings.Contains(told, want) {
				t.Errorf("%s does not read %q: %s", c.who, want, told)
			}
		}
		for _, not := range append(c.not, "yesterday", "mallory", "carol", unsaid, "resumed by eve") {
			if strings.Contains(told, not) {
				t.Errorf("%s reads %q: %s", c.who, not, told)
			}
		}
	}
}

// A lambda that fails is told of with the time since when, and a store that takes nothing too.
func TestTheFirstPageSaysWhatFails(t *testing.T) {
	k, f := newFakes("mail")
	f.failed = 1
	now := time.Now().Truncate(time.Minute)
	minutes := make([]overview.Minute, minutesPlotted)
	for i := range minutes {
		minutes[i] = overview.Minute{At: now.Add(time.Duration(i-59) * time.Minute), Started: 10, Ended: 10, Late99: 2 * time.Second}
	}
	minutes[10].Failed, minutes[50].Failed, minutes[53].Failed, minutes[59].Failed, minutes[59].Started = 1, 5, 5, 9, 0
	k.Source = failingSource{fakeSource{"mail"}, minutes, 1}
	k.BackedUp = func() (time.Time, time.Duration) { return now.Add(-10 * time.Minute), 10 * time.Second }
	page := as(k, access.All(), "GET", "/ui/", nil).Body.String()
	for _, want := range []string{
		"The place of backups does not get what is new. It has all until <time", "Attempts of mail fail, 33 in the last hour, since</a> <time datetime=\"" + now.Add(-9*time.Minute).UTC().Format("2006-01-02T15:04"), "The store is full", "damaged files: 000007.sst",
		`<h2>Failed attempts</h2><p class="figure">33<small> last hour`, "41 in the last day",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
	}
	k.BackedUp = func() (time.Time, time.Duration) { return now.Add(-10 * time.Minute), 5 * time.Minute }
	if page = as(New(k.Config), access.All(), "GET", "/ui/", nil).Body.String(); strings.Contains(page, "place of backups") {
		t.Error("a backup every five minutes is late after ten:", page)
	}
	var p struct {
		Values [][]*float64
	}
	if err := json.Unmarshal(as(k, access.All(), "GET", "/ui/plots/lateness?lambda=mail", nil).Body.Bytes(), &p); err != nil || *p.Values[1][58] != 2 || p.Values[1][59] != nil {
		t.Errorf("lateness: %v, %v", p, err)
	}
	other, err := access.ParseGrants([]string{"read:bill"})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"rates", "lateness", "failures"} {
		if w := as(k, other, "GET", "/ui/plots/"+path+"?lambda=mail", nil); w.Code != http.StatusForbidden {
			t.Errorf("the %s of a lambda that may not be read: %d", path, w.Code)
		}
	}
}

// When failures began is told over short pauses, and not where they are older than what is known.
func TestFailingSince(t *testing.T) {
	at := time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		count  int
		failed []int // the minutes with a failure beside nine ends
		since  int   // minute; -1: not told
		now    bool
	}{
		{60, nil, -1, false},
		{60, []int{59}, 59, false},
		{60, []int{3, 40, 45, 58, 59}, 58, false},
		{60, []int{50, 55, 56, 57, 58, 59}, 50, true},
		{60, []int{0, 4, 9, 14, 19, 24, 29, 34, 39, 44, 49, 54, 55, 56, 57, 58, 59}, -1, true},
		{3, []int{0, 1, 2}, 0, true},
	} {
		minutes := make([]overview.Minute, c.count)
		for i := range minutes {
			minutes[i] = overview.Minute{At: at.Add(time.Duration(i) * time.Minute), Ended: 9}
		}
		for _, i := range c.failed {
			minutes[i].Failed = 1
		}
		want := time.Time{}
		if c.since >= 0 {
			want = minutes[c.since].At
		}
		if since, now := failingSince(minutes); since != want || now != c.now {
			t.Errorf("%+v: since %v, now %v", c, since, now)
		}
	}
}

type nothingRejected struct {
	kinesinv1connect.UnimplementedInboundServiceHandler
}

func (nothingRejected) ListRejected(context.Context, *kinesinv1.ListRejectedRequest) (*kinesinv1.ListRejectedResponse, error) {
	return &kinesinv1.ListRejectedResponse{}, nil
}

// Whoever has one server reads nothing of several.
func TestOneServerShowsNothingOfFleets(t *testing.T) {
	for servers, want := range map[int]bool{1: false, 2: true} {
		k, _ := newFakes("mail")
		k.Source = failingSource{fakeSource{"mail"}, nil, servers}
		k.Inbound = nothingRejected{}
		var page strings.Builder
		for _, path := range []string{"/ui/", "/ui/workers", "/ui/dead"} {
			page.WriteString(as(k, access.All(), "GET", path, nil).Body.String())
		}
		if err := lambdaPage(&lambdaBody{Lambda: &kinesinv1.Lambda{}, Operate: true, Alone: servers == 1}).Render(&page); err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{"artition", "his server", "Without an owner", "Servers", "Rejected inbound", "Shards", "over all servers"} {
			if strings.Contains(page.String(), word) != want {
				t.Errorf("%d servers, and %q: %v: %s", servers, word, !want, page.String())
			}
		}
	}
}

// One click pauses a lambda, and why is said afterwards by a gate that is set before the other one ends.
func TestPauseInOneClick(t *testing.T) {
	k, _ := newFakes("mail")
	gates := &fakeGates{}
	k.Gates = gates
	if w := as(k, access.All(), "POST", "/ui/lambdas/mail", url.Values{"action": {"pause-all"}, "request": {newRequest()}}); w.Code != http.StatusSeeOther || gates.did() != "set pause mail  no reason given" {
		t.Errorf("%d, did %q", w.Code, gates.did())
	}
	gates.all = []*kinesinv1.Gate{{Id: "1", Action: "pause", Lambda: "mail", Tag: "customer=7", Reason: unsaid, State: "active"}}
	for _, c := range []struct {
		reason, did string
		status      int
	}{
		{"", "", http.StatusBadRequest},
		{"a bad deploy", "set pause mail customer=7 a bad deploy; resume 1", http.StatusSeeOther},
	} {
		gates.acts = nil
		w := as(k, access.All(), "POST", "/ui/lambdas/mail", url.Values{"action": {"why"}, "gate": {"1"}, "reason": {c.reason}, "request": {newRequest()}})
		if w.Code != c.status || gates.did() != c.did {
			t.Errorf("because of %q: %d, did %q", c.reason, w.Code, gates.did())
		}
	}
	gates.acts, gates.all[0].State = nil, "ended"
	if w := as(k, access.All(), "POST", "/ui/lambdas/mail", url.Values{"action": {"why"}, "gate": {"1"}, "reason": {"late"}}); w.Code != http.StatusBadRequest || gates.did() != "" {
		t.Errorf("of a gate that has ended: %d, did %q", w.Code, gates.did())
	}
}

// The page of a lambda tells of which errors its tasks died, or wait for a retry.
func TestErrorsOfALambda(t *testing.T) {
	b := &lambdaBody{Lambda: &kinesinv1.Lambda{Name: "mail"}}
	k, f := newFakes("timeout")
	c := &call{Console: k, r: httptest.NewRequest(http.MethodGet, "/ui/lambdas/mail", nil)}
	if err := c.addErrors(b); err != nil || len(b.Errors) != 1 || *b.Errors[0] != (lambdaError{"timeout", 1, 1, 2}) || len(f.lists) != 2 {
		t.Errorf("%v, %v", b.Errors, err)
	}
	k.Source = meteredSource{fakeSource{"text"}}
	c = &call{Console: New(k.Config), r: c.r}
	if err := c.addErrors(b); err != nil || !b.ErrorsNot || len(f.lists) != 2 {
		t.Errorf("where reads cost money: %v, %v", b.ErrorsNot, f.lists)
	}
}
