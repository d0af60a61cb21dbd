package web

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/oauth2-proxy/mockoidc"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/server"
)

// Somebody signs in at the page of a provider, sees a page change by itself, and signs out.
func TestSignInAtAProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	m, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown() })
	tokens, _ := tokenFile(t)
	policy := strings.ReplaceAll(`
identities: [{name: operators, oidc: {issuer: "ISSUER", group: ops}}]
grants: [{identity: operators, allow: ["*:*"]}]
issuers: [{url: "ISSUER", audience: kinesin}]
`, "ISSUER", m.Issuer())
	s := start(t, server.Config{AuthTokenFile: tokens, PolicyFile: file(t, policy), ConsoleOIDC: server.ConsoleOIDC{
		Issuer: m.Issuer(), ClientID: m.ClientID, ClientSecretFile: file(t, m.ClientSecret), Scopes: []string{"email", "groups"},
	}}, sdk.WithTokenFile(tokens))
	s.lambda(t, "mail", admin.Lambda{})
	b := open(t, s.url)
	b.elsewhere = m.Issuer()

	m.QueueUser(&mockoidc.MockUser{Subject: "1", Email: "eve@example.org", EmailVerified: true, Groups: []string{"sales"}})
	b.do(chromedp.Navigate(s.url+"/ui/lambdas"), chromedp.WaitVisible("#provider"))
	b.accessible("sign-in at a provider")
	b.picture("signin-provider")
	b.do(chromedp.Click("#provider"), chromedp.WaitVisible(".wrong"))
	b.has("eve@example.org", "the policy has no identity")

	m.QueueUser(&mockoidc.MockUser{Subject: "2", Email: "ada@example.org", EmailVerified: true, Groups: []string{"ops"}})
	b.do(chromedp.Click("#provider"), chromedp.WaitVisible("header .name"))
	var where, who, cookies string
	b.do(chromedp.Location(&where), chromedp.Text("header .name", &who))
	if where != s.url+"/ui/lambdas" && where != s.url+"/ui/" || who != "operators/ada@example.org" {
		t.Errorf("%q is at %s", who, where)
	}
	b.eval("document.cookie", &cookies)
	if cookies != "" {
		t.Errorf("scripts see %s", cookies)
	}
	b.fine("signed in at a provider")

	b.open("/ui/")
	b.do(chromedp.WaitReady(".plot canvas"))
	var streams, polls int
	s.schedule(t, sdk.Item{Lambda: "mail"}, sdk.Item{Lambda: "mail"}, sdk.Item{Lambda: "mail"})
	b.do(chromedp.WaitVisible(`//*[@id="tables" and contains(., "mail")]`), chromedp.WaitVisible(`//*[contains(., "No worker runs the tasks of mail")]`))
	b.eval(`performance.getEntriesByType('resource').filter((e) => e.initiatorType === 'xmlhttprequest' && e.name.includes('part=live')).length`, &polls)
	if polls > 0 {
		t.Errorf("asked %d times for what is streamed", polls)
	}
	b.eval(`document.getElementById('live').getAttribute('sse-connect') ? 1 : 0`, &streams)
	if streams != 1 {
		t.Error("no stream")
	}
	b.fine("a page that is streamed")

	b.do(chromedp.Click(`//button[text()="Sign out"]`))
	b.do(chromedp.WaitVisible("#token"), chromedp.Navigate(s.url+"/ui/lambdas"), chromedp.WaitVisible("#token"))
	b.fine("signed out")
}

// Where there are no streams, a page asks again and again.
func TestPagesThatAreNotStreamed(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.lambda(t, "mail", admin.Lambda{})
	b := open(t, s.url)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument("window.EventSource = undefined").Do(ctx)
		return err
	}))
	b.open("/ui/")
	s.schedule(t, sdk.Item{Lambda: "mail"})
	b.do(chromedp.WaitVisible(`//*[contains(., "No worker runs the tasks of mail")]`))
	b.fine("a page that asks again")
}
