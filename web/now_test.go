package web

import (
	"context"
	"encoding/json"
	"net/http"
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

	all []*kinesinv1.Gate
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
		{Action: "drop", Lambda: "mail", Tag: "customer=7", Owner: "ada", Reason: "spam", Created: ago(2 * time.Hour), Ended: ago(2 * time.Minute), EndedBy: "bob"},
		{Action: "pause", Lambda: "mail", Owner: "eve", Reason: "of yesterday", Created: ago(24 * time.Hour)},
		{Action: "pause", Lambda: "bill", Owner: "eve", Reason: "a secret", Created: ago(time.Minute)},
	}}
	k.Access = fakeAccess{records: []*kinesinv1.AuditRecord{
		{Action: "lambda.update", Target: "mail", Identity: "bob", Outcome: "ok", At: ago(3 * time.Minute)},
		{Action: "lambda.update", Target: "bill", Identity: "mallory", Outcome: "denied", At: ago(3 * time.Minute)},
		{Action: "task.read_payload", Target: "mail", Identity: "carol", Outcome: "ok", At: ago(3 * time.Minute)},
	}}
	mine := []string{"mail was paused by ada: a bad deploy", "mail was resumed by bob"}
	admins := []string{"The settings of mail changed by bob", "bill was paused by eve: a secret"}
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
		for _, not := range append(c.not, "yesterday", "mallory", "carol") {
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
	page := as(k, access.All(), "GET", "/ui/", nil).Body.String()
	for _, want := range []string{
		"Attempts of mail fail, 33 in the last hour, since</a> <time datetime=\"" + now.Add(-9*time.Minute).UTC().Format("2006-01-02T15:04"), "The store is full", "damaged files: 000007.sst",
		`<h2>Failed attempts</h2><p class="figure">33<small> last hour`, "41 in the last day",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q: %s", want, page)
		}
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
		{60, nil, -1, false}, {60, []int{59}, 59, false}, {60, []int{3, 40, 45, 58, 59}, 58, false}, {60, []int{50, 55, 56, 57, 58, 59}, 50, true},
		{60, []int{0, 4, 9, 14, 19, 24, 29, 34, 39, 44, 49, 54, 55, 56, 57, 58, 59}, -1, true}, {3, []int{0, 1, 2}, 0, true},
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

// Whoever has one server reads nothing of several.
func TestOneServerShowsNothingOfFleets(t *testing.T) {
	for servers, want := range map[int]bool{1: false, 2: true} {
		k, _ := newFakes("mail")
		k.Source = failingSource{fakeSource{"mail"}, nil, servers}
		page := ""
		for _, path := range []string{"/ui/", "/ui/workers"} {
			page += as(k, access.All(), "GET", path, nil).Body.String()
		}
		for _, word := range []string{"artition", "his server", "Without an owner", "Servers"} {
			if strings.Contains(page, word) != want {
				t.Errorf("%d servers, and %q: %v: %s", servers, word, !want, page)
			}
		}
	}
}
