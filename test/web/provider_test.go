package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"github.com/kinesin-io/kinesin/server"
	"github.com/kinesin-io/kinesin/web"
)

// provider starts an OpenID Connect provider, and returns the configuration of a server whose policy knows
// ada by her subject, bob by his e-mail address, and two groups.
func provider(t *testing.T) (*mockoidc.MockOIDC, server.Config) {
	t.Helper()
	m, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown() })
	text := strings.NewReplacer("ISSUER", m.Issuer()).Replace(`
identities:
  - {name: ada, oidc: {issuer: "ISSUER", subject: ada-1}}
  - {name: bob, oidc: {issuer: "ISSUER", email: Bob@example.org}}
  - {name: readers, oidc: {issuer: "ISSUER", group: staff}}
  - {name: operators, oidc: {issuer: "ISSUER", group: ops}}
grants:
  - {identity: ada, allow: ["*:*"]}
  - {identity: bob, allow: ["read:mail"]}
  - {identity: readers, allow: ["read:*"]}
  - {identity: operators, allow: ["admin"]}
issuers:
  - {url: "ISSUER", audience: kinesin-api}
`)
	text = strings.Replace(text, `["admin"]`, `["*:*"]`, 1)
	return m, server.Config{PolicyFile: file(t, text), ConsoleOIDC: server.ConsoleOIDC{
		Issuer: m.Issuer(), ClientID: m.ClientID, ClientSecretFile: file(t, m.ClientSecret+"\n"), Scopes: []string{"email", "groups"},
	}}
}

// atProvider follows a browser to the page of the provider, and returns with what it comes back, as a path.
func (r *site) atProvider(b *http.Client, next string) (sent, back *url.URL) {
	r.t.Helper()
	begun, body := r.page(b, "GET", "/ui/signin/provider?next="+url.QueryEscape(next))
	sent, err := url.Parse(begun.Header.Get("Location"))
	if err != nil || begun.StatusCode != http.StatusSeeOther {
		r.t.Fatal(begun.StatusCode, begun.Header, body)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, sent.String(), nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := b.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = response.Body.Close()
	if back, err = url.Parse(response.Header.Get("Location")); err != nil {
		r.t.Fatal(err)
	}
	return sent, back
}

func TestWhomAProviderLetsIn(t *testing.T) {
	m, c := provider(t)
	r := start(t, c)
	for name, user := range map[string]struct {
		mockoidc.MockUser

		seesAudit bool
		says      string // empty: he is let in
	}{
		"ada":                       {MockUser: mockoidc.MockUser{Subject: "ada-1"}, seesAudit: true},
		"bob":                       {MockUser: mockoidc.MockUser{Subject: "b", Email: "bob@Example.org", EmailVerified: true}},
		"readers/c":                 {MockUser: mockoidc.MockUser{Subject: "c", Groups: []string{"others", "staff"}}},
		"readers/dan@example.org":   {MockUser: mockoidc.MockUser{Subject: "d", Email: "dan@example.org", EmailVerified: true, Groups: []string{"ops", "staff"}}, seesAudit: true},
		"an address nobody checked": {MockUser: mockoidc.MockUser{Subject: "e", Email: "bob@example.org"}, says: `you are somebody whose e-mail address it does not vouch for (subject &#34;e&#34;)`},
		"nobody":                    {MockUser: mockoidc.MockUser{Subject: "f", Groups: []string{"others"}}, says: "the policy has no identity"},
	} {
		b := r.browser()
		if _, body := r.page(b, "GET", "/ui/signin?next=/ui/jobs"); !strings.Contains(body, `href="/ui/signin/provider?next=%2Fui%2Fjobs"`) {
			t.Error(body)
		}
		m.QueueUser(&user.MockUser)
		sent, back := r.atProvider(b, "/ui/jobs")
		q := sent.Query()
		if q.Get("code_challenge_method") != "S256" || q.Get("nonce") == "" || len(q.Get("state")) < 32 || q.Get("redirect_uri") != r.url+web.CallbackPath || q.Get("scope") != "openid email groups" {
			t.Errorf("asked for %v", q)
		}
		answer, body := r.page(b, "GET", back.RequestURI(), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		if user.says != "" {
			if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(body, user.says) {
				t.Errorf("%s: %d %s", name, answer.StatusCode, body)
			}
			continue
		}
		if answer.StatusCode != http.StatusOK || !strings.Contains(body, "0; url=/ui/jobs") {
			t.Errorf("%s: %d %s", name, answer.StatusCode, body)
		}
		if answer, body := r.page(b, "GET", "/ui/jobs"); answer.StatusCode != http.StatusOK || !strings.Contains(body, name) || !strings.Contains(body, "Sign out") {
			t.Errorf("%s: %d %s", name, answer.StatusCode, body)
		}
		if answer, _ := r.page(b, "GET", "/ui/audit"); (answer.StatusCode == http.StatusOK) != user.seesAudit {
			t.Errorf("%s: the audit log: %d", name, answer.StatusCode)
		}
		if answer, body := r.page(b, "GET", back.RequestURI()); answer.StatusCode != http.StatusUnauthorized || !strings.Contains(body, "Sign in again") {
			t.Errorf("%s comes back twice: %d %s", name, answer.StatusCode, body)
		}
		cookies := b.Jar.Cookies(mustParse(t, r.url+"/ui/"))
		r.page(b, "POST", "/ui/signout")
		b.Jar.SetCookies(mustParse(t, r.url+"/ui/"), cookies)
		if answer, _ := r.page(b, "GET", "/ui/jobs"); answer.StatusCode != http.StatusSeeOther {
			t.Errorf("%s signed out, and a copy of the cookie is still good: %d", name, answer.StatusCode)
		}
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// An answer is taken only from the browser that was sent, with what was sent, in time.
func TestASignInThatIsNotTheBrowsersOwn(t *testing.T) {
	m, c := provider(t)
	r := start(t, c)
	user := &mockoidc.MockUser{Subject: "ada-1"}
	refused := func(name string, b *http.Client, path, says string) {
		t.Helper()
		answer, body := r.page(b, "GET", path)
		if answer.StatusCode != http.StatusUnauthorized || !strings.Contains(body, says) {
			t.Errorf("%s: %d, want %q\n%s", name, answer.StatusCode, says, body)
		}
		if answer, _ := r.page(b, "GET", "/ui/jobs"); answer.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: signed in", name)
		}
	}
	back := func(b *http.Client, change func(url.Values)) string {
		t.Helper()
		m.QueueUser(user)
		_, u := r.atProvider(b, "/ui/jobs")
		q := u.Query()
		change(q)
		return u.Path + "?" + q.Encode()
	}
	same := func(url.Values) {}
	attacker, victim := r.browser(), r.browser()
	refused("a link of another browser", victim, back(attacker, same), "begun in another browser")
	path := back(attacker, same)
	back(victim, same) // the victim has begun one, too
	refused("another browser's code", victim, path, "not to the sign-in that this browser began last")
	b := r.browser()
	refused("no state", b, back(b, func(q url.Values) { q.Del("state") }), "not to the sign-in")
	refused("a wrong code", b, back(b, func(q url.Values) { q.Set("code", "x") }), "refused the code")
	refused("another provider", b, back(b, func(q url.Values) { q.Set("iss", "https://evil.example") }), "another provider")
	refused("an error", b, back(b, func(q url.Values) { q.Set("error", "access_denied"); q.Set("error_description", "<b>no") }), "provider says access_denied: &lt;b&gt;no")
	first := back(b, same)
	second := strings.Replace(back(b, same), "code=", "x=", 1)
	refused("the code of an earlier sign-in", b, second+"&code="+mustParse(t, first).Query().Get("code"), "refused the code") // by PKCE
	if answer, _ := r.page(b, "GET", "/ui/signin/provider?next=https://evil.example"); strings.Contains(answer.Header.Get("Location"), "evil") {
		t.Error(answer.Header)
	}
	cookie := ""
	answer, _ := r.page(r.browser(), "GET", "/ui/signin/provider")
	for _, c := range answer.Cookies {
		if cookie = c.Value; !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge > 600 {
			t.Errorf("%+v", c)
		}
	}
	if b.Jar.SetCookies(mustParse(t, r.url+"/ui/"), []*http.Cookie{{Name: "kinesin_console", Value: cookie, Path: "/ui/"}}); cookie == "" {
		t.Error("no cookie")
	}
	if answer, _ := r.page(b, "GET", "/ui/jobs"); answer.StatusCode != http.StatusSeeOther {
		t.Error("what a sign-in keeps is a session")
	}
}

// A session ends with its ID token, and so does what is streamed to an open page.
func TestAnIDTokenThatExpiresEndsItsSession(t *testing.T) {
	t.Parallel()
	m, c := provider(t)
	r := start(t, c)
	m.AccessTTL = 4 * time.Second
	m.QueueUser(&mockoidc.MockUser{Subject: "ada-1"})
	b := r.browser()
	_, back := r.atProvider(b, "/ui/")
	r.page(b, "GET", back.RequestURI())
	status, header, events := r.stream(b, "/ui/?part=live")
	if line := events(); line != "retry: 2000" || header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatal(status, header, line)
	}
	for line := events(); line != ""; line = events() { // until it ends
		t.Log(line)
	}
	if answer, _ := r.page(b, "GET", "/ui/jobs"); answer.StatusCode != http.StatusSeeOther {
		t.Error(answer.StatusCode)
	}
	if again, _, _ := r.stream(b, "/ui/?part=live"); again != http.StatusUnauthorized {
		t.Error(again)
	}
	m.AccessTTL = time.Hour
	_ = m.Shutdown()
	if answer, body := r.page(b, "GET", "/ui/signin/callback?code=x"); answer.StatusCode != http.StatusUnauthorized {
		t.Error(answer.StatusCode, body)
	}
}

// A session goes on by its refresh token, with what the provider says now, and ends with its token where the
// provider gives no other.
func TestASessionGoesOnByItsRefreshToken(t *testing.T) {
	m, c := provider(t)
	r := start(t, c)
	m.AccessTTL = 5 * time.Second
	signIn := func() (*http.Client, *mockoidc.MockUser) {
		user, b := &mockoidc.MockUser{Subject: "d", Groups: []string{"staff"}}, r.browser()
		m.QueueUser(user)
		_, back := r.atProvider(b, "/ui/")
		r.page(b, "GET", back.RequestURI())
		return b, user
	}
	status := func(b *http.Client, path string) int {
		answer, _ := r.page(b, "GET", path)
		return answer.StatusCode
	}
	b, user := signIn()
	m.RefreshTTL = -time.Hour
	refused, _ := signIn()
	began := time.Now()
	if got := status(refused, "/ui/jobs"); got != http.StatusOK {
		t.Errorf("a session whose provider gives no other token: %d", got)
	}
	user.Groups = []string{"staff", "ops"}
	m.AccessTTL = time.Hour
	if got := status(b, "/ui/audit"); got == http.StatusOK {
		t.Error("the audit log is shown before the provider says that she may see it")
	}
	if got := status(b, "/ui/audit"); got != http.StatusOK {
		t.Errorf("the provider says that she may see the audit log: %d", got)
	}
	time.Sleep(time.Until(began.Add(5500 * time.Millisecond)))
	if got := status(b, "/ui/jobs"); got != http.StatusOK {
		t.Errorf("after its first token: %d", got)
	}
	if got := status(refused, "/ui/jobs"); got != http.StatusSeeOther {
		t.Errorf("after its only token: %d", got)
	}
}

func TestAnIssuerThatThePolicyDoesNotName(t *testing.T) {
	_, c := provider(t)
	c.ConsoleOIDC.Issuer, c.DataDir, c.Listen = "https://other.example", t.TempDir(), "127.0.0.1:0"
	if _, err := server.New(t.Context(), c); !errors.Is(err, server.ErrConfig) || !strings.Contains(err.Error(), "does not name the issuer https://other.example") {
		t.Error(err)
	}
}
