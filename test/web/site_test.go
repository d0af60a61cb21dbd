package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/server"
)

// evil are texts that would do something if a page took them for markup, script or a path.
var evil = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `'onmouseover='alert(1)`, `</textarea><svg onload=alert(1)>`, `javascript:alert(1)`,
	`{{.}}${7*7}`, `<a href="javascript:alert(1)" hx-get="/ui/" hx-on:click="alert(1)">x</a>`, "a/b?c#d%2e..\\", "\u202egnp.exe\u200b", `</title><style>*{display:none}</style>`,
}

// site is a server with what an operator meets: lambdas that run, fail and are paused, crons, and dead tasks.
type site struct {
	t      *testing.T
	url    string
	client *sdk.Client
	ids    map[string]string // of tasks, by what they are
	dir    string
}

// start starts a server in this process. tokens: it asks for one.
func start(t *testing.T, c server.Config, options ...sdk.ClientOption) *site {
	t.Helper()
	c.DataDir, c.Listen, c.Version, c.Log = t.TempDir(), "127.0.0.1:0", "1.0", slog.New(slog.DiscardHandler)
	s, err := server.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	runtest.Start(t, s.Run)
	client, err := sdk.NewClient(s.URL(), options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	runtest.Eventually(t, 30*time.Second, "ready", func() bool {
		response, err := http.Get(s.URL() + "/readyz")
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return &site{t: t, url: s.URL(), client: client, ids: map[string]string{}, dir: c.DataDir}
}

func (s *site) page(client *http.Client, method, path string, headers ...string) (of runtest.Answer, body string) {
	s.t.Helper()
	return runtest.Page(s.t, client, method, s.url+path, nil, headers...)
}

func (s *site) browser() *http.Client {
	s.t.Helper()
	return runtest.Browser(s.t, nil)
}

func (s *site) stream(client *http.Client, path string) (status int, header http.Header, next func() string) {
	s.t.Helper()
	return runtest.Stream(s.t, client, s.url+path)
}

func (s *site) lambda(t *testing.T, name string, info admin.Lambda) {
	t.Helper()
	if err := admin.New(s.client).Lambdas.Ensure(t.Context(), sdk.NewLambda[[]byte](name), info); err != nil {
		t.Fatal(err)
	}
}

func (s *site) schedule(t *testing.T, items ...sdk.Item) (ids []string) {
	t.Helper()
	results, err := s.client.ScheduleMany(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		ids = append(ids, string(r.ID))
	}
	return ids
}

// fill makes the tasks, and a worker that runs them.
func (s *site) fill(t *testing.T) {
	t.Helper()
	quick := admin.Lambda{MaxAttempts: 2, BackoffMin: 20 * time.Millisecond, BackoffMax: 40 * time.Millisecond}
	for _, name := range []string{"mail", "invoice", "thumbnail", "report", "webhook"} {
		s.lambda(t, name, quick)
	}
	worker := sdk.NewWorker(s.client, sdk.Slots(16), sdk.Grace(time.Second), sdk.Version("2.4.1"))
	for _, name := range []string{"mail", "invoice", "thumbnail", "webhook"} {
		worker.Register(name, handle)
	}
	runtest.Start(t, worker.Run)

	var soon []sdk.Item
	for i := range 400 {
		soon = append(soon, sdk.Item{Lambda: []string{"mail", "invoice", "thumbnail"}[i%3], Payload: fmt.Appendf(nil, `{"user": %d, "template": "welcome"}`, i), In: time.Duration(i) * 4 * time.Minute, Key: fmt.Sprintf("order-%04d", 1000+i)})
	}
	s.schedule(t, soon...)
	var items []sdk.Item
	for i := range 120 {
		items = append(items, sdk.Item{Lambda: "mail", Payload: fmt.Appendf(nil, `{"user": %d}`, i)})
	}
	for i := range 23 {
		items = append(items, sdk.Item{Lambda: "webhook", Payload: []byte("fail: 503 from https://shop.example/hook: upstream timeout"), Key: fmt.Sprintf("hook-%d", i), Tags: map[string]string{"customer": "7"}})
	}
	for range 9 {
		items = append(items, sdk.Item{Lambda: "invoice", Payload: []byte("fail: customer has no VAT number")})
	}
	s.schedule(t, items...)
	for i, text := range evil {
		s.ids["evil"+fmt.Sprint(i)] = s.schedule(t, sdk.Item{Lambda: "webhook", Payload: []byte("fail: " + text), Key: "evil " + text, Tags: map[string]string{"note": text}})[0]
	}
	s.ids["json"] = s.schedule(t, sdk.Item{Lambda: "mail", In: 26 * time.Hour, Key: "trial-ends-81723", Collection: "eu", Tags: map[string]string{"customer": "81723"}, Payload: []byte(`{"user":81723,"to":"ada@example.org","template":"trial-ends","args":{"days":3,"plan":"team"}}`)})[0]
	s.ids["binary"] = s.schedule(t, sdk.Item{Lambda: "mail", In: time.Hour, Payload: []byte{0, 1, 2, 0xff, 0xfe, 'k', 'i', 'n'}})[0]
	s.ids["dead"] = s.schedule(t, sdk.Item{Lambda: "webhook", Payload: []byte("fail: 503 from https://shop.example/hook: upstream timeout"), Key: "hook-23"})[0]
	s.ids["unserved"] = s.schedule(t, sdk.Item{Lambda: "report", Payload: []byte(`{"month":"2027-01"}`)})[0]
	s.ids["chain"] = s.schedule(t, sdk.Item{
		Lambda: "mail", Payload: []byte("first"), Key: "chain", Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		Then: []sdk.Item{{Lambda: "invoice", Payload: []byte("fail: no such account")}, {Lambda: "report", In: time.Hour}},
		Else: []sdk.Item{{Lambda: "webhook"}},
	})[0]
	group, err := s.client.CreateGroup(t.Context(), sdk.GroupSpec{Then: []sdk.Item{{Lambda: "report"}}})
	if err != nil {
		t.Fatal(err)
	}
	members, err := s.client.AddMembers(t.Context(), group.ID, 0, []sdk.Item{{Lambda: "mail"}, {Lambda: "invoice", In: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	s.ids["member"] = string(members[1])
	for _, c := range []admin.Cron{
		{Name: "nightly-report", Lambda: "report", Schedule: "0 2 * * *", Zone: "Europe/Paris", Payload: []byte(`{"day":"{{nominal}}"}`)},
		{Name: "sync", Lambda: "webhook", Schedule: "*/20 * * * *", Payload: []byte("{}")},
	} {
		if _, _, err := admin.New(s.client).Crons.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.New(s.client).Gates.Create(t.Context(), admin.Gate{Action: admin.GatePause, Lambda: "thumbnail", Reason: "image service is being updated", Until: time.Now().Add(2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.New(s.client).Quotas.Set(t.Context(), admin.Quota{Lambda: "webhook", Rate: 500}, admin.QuotaSetOptions{}); err != nil {
		t.Fatal(err)
	}
	runtest.Eventually(t, 30*time.Second, "dead", func() bool {
		r, err := s.client.Get(t.Context(), sdk.ID(s.ids["dead"]))
		return err == nil && r.State == sdk.StateDead
	})
}

// handle succeeds, or fails as the payload says.
func handle(_ context.Context, t *sdk.Task[[]byte]) error {
	if text, fails := strings.CutPrefix(string(t.Payload), "fail: "); fails {
		return errors.New(text)
	}
	return nil
}

// tokenFile returns a file with one token, and the token.
func tokenFile(t *testing.T) (path, token string) {
	t.Helper()
	token = strings.Repeat("t0ken", 8)
	return file(t, token+"\n"), token
}

// file returns the path of a file with a text.
func file(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
