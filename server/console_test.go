package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/internal/tlstest"
)

// page asks for a page, and returns what came back.
func (r *running) page(client *http.Client, method, path string, form url.Values, headers ...string) (of runtest.Answer, body string) {
	r.t.Helper()
	return runtest.Page(r.t, client, method, r.url+path, form, headers...)
}

// browser returns a client that keeps cookies and follows no redirect.
func (r *running) browser() *http.Client {
	r.t.Helper()
	return runtest.Browser(r.t, r.http.Transport)
}

var consolePages = []string{"/ui/", "/ui/tasks", "/ui/lambdas", "/ui/lambdas/mail", "/ui/dead", "/ui/crons", "/ui/workers", "/ui/jobs", "/ui/audit"}

// On a server for this machine nobody is asked to sign in.
func TestTheConsole(t *testing.T) {
	r := serve(t, Config{})
	b := r.browser()
	for from, to := range map[string]string{"/": "/ui/", "/ui": "/ui/", "/ui/signin": "/ui/"} {
		if response, _ := r.page(b, "GET", from, nil); response.Header.Get("Location") != to {
			t.Errorf("%s: %d to %q", from, response.StatusCode, response.Header.Get("Location"))
		}
	}
	r.plain("", "POST", "/v1/lambdas", `{"name":"mail"}`)
	_, made := r.plain("", "POST", "/v1/lambdas/mail/tasks", `{"delay":"1h","key":"a/b?c","payload":{"user":"hopper"}}`)
	id, _ := made["id"].(string)
	for _, path := range append(consolePages, "/ui/tasks/"+id) {
		response, body := r.page(b, "GET", path, nil)
		if csp := response.Header.Get("Content-Security-Policy"); response.StatusCode != http.StatusOK || strings.Count(body, "<h1") != 1 ||
			strings.Contains(csp, "unsafe") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("%s: %d %v\n%s", path, response.StatusCode, response.Header, body)
		}
	}
	if response, _ := r.page(b, "GET", "/ui/key?lambda=mail&key=a%2Fb%3Fc", nil); response.Header.Get("Location") != "/ui/tasks/"+id {
		t.Errorf("by key: %v", response.Header)
	}
	if response, _ := r.page(b, "GET", "/ui/nothing", nil); response.StatusCode != http.StatusNotFound {
		t.Error(response.StatusCode)
	}
	if _, body := r.page(b, "GET", "/ui/tasks/"+id, nil); !strings.Contains(body, "&#34;user&#34;: &#34;hopper&#34;") {
		t.Error(body)
	}
	if response, body := r.page(b, "GET", "/ui/tasks?q=state+%3D%3D+x", nil); response.StatusCode != http.StatusBadRequest || !strings.Contains(body, `role="alert"`) {
		t.Error(response.StatusCode, body)
	}
	if response, _ := r.page(b, "POST", "/ui/tasks/"+id, url.Values{"action": {"cancel"}, "reason": {"a test"}}); response.StatusCode != http.StatusSeeOther {
		t.Error(response.StatusCode)
	}
	if _, got := r.plain("", "GET", "/v1/tasks/"+id, ""); got["state"] != "cancelled" {
		t.Error(got)
	}
	if status, _ := r.get("/nothing"); status != http.StatusNotFound {
		t.Error(status)
	}
}

func TestTheConsoleOffAndReadOnly(t *testing.T) {
	r := serve(t, Config{NoConsole: true})
	for _, path := range []string{"/", "/ui/", "/ui/tasks"} {
		if status, _ := r.get(path); status != http.StatusNotFound || r.ConsoleURL() != "" {
			t.Errorf("%s: %d", path, status)
		}
	}
	r = serve(t, Config{ConsoleReadOnly: true})
	r.plain("", "POST", "/v1/lambdas", `{"name":"mail"}`)
	_, made := r.plain("", "POST", "/v1/lambdas/mail/tasks", `{"delay":"1h"}`)
	id, _ := made["id"].(string)
	b := r.browser()
	if response, _ := r.page(b, "POST", "/ui/tasks/"+id, url.Values{"action": {"cancel"}, "reason": {"a test"}}); response.StatusCode != http.StatusForbidden {
		t.Error(response.StatusCode)
	}
	if _, got := r.plain("", "GET", "/v1/tasks/"+id, ""); got["state"] != "scheduled" {
		t.Error(got)
	}
}

// A session does what its token may, and nothing but the console takes it.
func TestTheConsoleGoesByGrants(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}, "reader": {"read:mail"}, "nobody": nil})})
	r.plain("root", "POST", "/v1/lambdas", `{"name":"mail"}`)
	r.plain("root", "POST", "/v1/lambdas", `{"name":"salaries"}`)
	_, made := r.plain("root", "POST", "/v1/lambdas/mail/tasks", `{"delay":"1h","payload":{"user":"hopper"}}`)
	_, other := r.plain("root", "POST", "/v1/lambdas/salaries/tasks", `{"delay":"1h"}`)
	id, _ := made["id"].(string)
	hidden, _ := other["id"].(string)

	b := r.browser()
	for _, path := range append(consolePages, "/ui/tasks/"+id) {
		if response, body := r.page(b, "GET", path, nil); !strings.HasPrefix(response.Header.Get("Location"), "/ui/signin") || strings.Contains(body, "<h1") {
			t.Errorf("%s without a token: %d %v %s", path, response.StatusCode, response.Header, body)
		}
	}
	if response, _ := r.page(b, "GET", "/ui/?part=live", nil, "HX-Request", "true"); response.Header.Get("HX-Redirect") == "" {
		t.Error("an open page does not learn that its session is over:", response.Header)
	}
	if response, _ := r.page(b, "GET", "/", nil); response.Header.Get("Location") != "/ui/" {
		t.Error(response.StatusCode, response.Header)
	}
	if response, body := r.page(b, "GET", "/ui/tasks", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"); response.StatusCode != http.StatusOK || !strings.Contains(body, "0; url=/ui/tasks") {
		t.Error("a link from another site does not come again with its cookie:", response.StatusCode, body)
	}
	if response, _ := r.page(b, "GET", "/ui/tasks", nil, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"); response.StatusCode != http.StatusForbidden {
		t.Error("another site's page loads one of the console:", response.StatusCode)
	}
	if response, _ := r.page(b, "POST", "/ui/signin", url.Values{"token": {"wrong"}}); response.StatusCode != http.StatusUnauthorized {
		t.Error(response.StatusCode)
	}
	if response, _ := r.page(b, "POST", "/ui/signin", url.Values{"token": {secretOf("reader")}, "next": {"/ui/lambdas"}}); response.Header.Get("Location") != "/ui/lambdas" {
		t.Error(response.StatusCode, response.Header)
	}
	if response, body := r.page(b, "GET", "/ui/lambdas", nil); response.StatusCode != http.StatusOK || !strings.Contains(body, "mail") || strings.Contains(body, "salaries") || !strings.Contains(body, "reader") {
		t.Error(response.StatusCode, body)
	}
	for path, status := range map[string]int{"/ui/audit": 403, "/ui/workers": 403, "/ui/lambdas/salaries": 403, "/ui/tasks/" + hidden: 403, "/ui/tasks/" + id + "?payload=show": 403, "/ui/tasks/" + id: 200} {
		if response, body := r.page(b, "GET", path, nil); response.StatusCode != status || strings.Contains(body, "hopper") {
			t.Errorf("%s as a reader: %d", path, response.StatusCode)
		}
	}
	for path, form := range map[string]url.Values{
		"/ui/tasks/" + id: {"action": {"cancel"}, "reason": {"x"}}, "/ui/lambdas/mail": {"action": {"pause"}, "reason": {"x"}, "confirmed": {"yes"}},
	} {
		if response, _ := r.page(b, "POST", path, form); response.StatusCode != http.StatusForbidden {
			t.Errorf("%s as a reader: %d", path, response.StatusCode)
		}
	}
	if response, _ := r.page(b, "GET", "/v1/lambdas", nil); response.StatusCode != http.StatusUnauthorized {
		t.Error("the API takes a cookie:", response.StatusCode)
	}
	if response, _ := r.page(b, "POST", "/ui/signout", nil); response.Header.Get("Location") != "/ui/signin" {
		t.Error(response.Header)
	}
	if response, _ := r.page(b, "GET", "/ui/lambdas", nil); response.StatusCode != http.StatusSeeOther {
		t.Error("signed out, and still in")
	}
}

// A session ends when its token does, and over TLS its cookie goes nowhere else.
func TestARevokedTokenEndsItsSession(t *testing.T) {
	t.Parallel()
	a := tlstest.New(t)
	r := serveTLS(t, Config{PolicyFile: policyFile(t, map[string][]string{"root": {"*:*"}}), TLSCertFile: a.CertFile, TLSKeyFile: a.KeyFile}, a)
	answer, code := r.callAs("root", kinesinv1connect.AccessServiceCreateTokenProcedure, `{"name":"team","grants":["read:*"]}`)
	var made struct{ Secret string }
	if err := json.Unmarshal([]byte(answer), &made); err != nil || code != "" {
		t.Fatal(answer, code, err)
	}
	b := r.browser()
	response, _ := r.page(b, "POST", "/ui/signin", url.Values{"token": {made.Secret}})
	cookies := response.Cookies
	if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || cookies[0].Name != "__Host-kinesin" {
		t.Fatal(response.StatusCode, cookies)
	}
	if response, _ := r.page(b, "GET", "/ui/lambdas", nil); response.StatusCode != http.StatusOK {
		t.Fatal(response.StatusCode)
	}
	if answer, code := r.callAs("root", kinesinv1connect.AccessServiceRevokeTokenProcedure, `{"name":"team"}`); code != "" {
		t.Fatal(answer, code)
	}
	r.until("signed out", func() bool {
		response, _ := r.page(b, "GET", "/ui/lambdas", nil)
		return strings.HasPrefix(response.Header.Get("Location"), "/ui/signin")
	})
	r.page(b, "POST", "/ui/signin", url.Values{"token": {secretOf("root")}})
	if _, records := r.page(b, "GET", "/ui/audit", nil); !strings.Contains(records, "console.sign_in") || !strings.Contains(records, "unauthenticated: revoked") {
		t.Error("the audit log does not tell:", records)
	}
}

// A server that stops ends the streams of its pages.
func TestStreamsEndWithTheServer(t *testing.T) {
	r := serve(t, Config{})
	_, _, next := runtest.Stream(t, r.browser(), r.url+"/ui/?part=live")
	if next() != "retry: 2000" || next() != "event: live" {
		t.Fatal("no event")
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for line := next(); line != ""; line = next() {
			t.Log(line)
		}
	}()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	<-ended
}
