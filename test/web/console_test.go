package web

import (
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/server"
)

// Each page in each look: one heading, nothing wrong in the browser, nobody kept out, as wide as its window.
func TestEveryPage(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{TraceURL: "https://traces.example/trace/{trace_id}"})
	s.fill(t)
	b := open(t, s.url)
	pages := []struct{ name, path string }{
		{"now", "/ui/"},
		{"tasks", "/ui/tasks"},
		{"tasks-dead", "/ui/tasks?q=" + url.QueryEscape(`state=dead and lambda=webhook`)},
		{"schedule", "/ui/tasks/new?lambda=mail"},
		{"task", "/ui/tasks/" + s.ids["json"] + "?payload=show"},
		{"task-dead", "/ui/tasks/" + s.ids["dead"]},
		{"task-chain", "/ui/tasks/" + s.ids["chain"]},
		{"task-member", "/ui/tasks/" + s.ids["member"]},
		{"task-binary", "/ui/tasks/" + s.ids["binary"] + "?payload=show"},
		{"lambdas", "/ui/lambdas"},
		{"lambda", "/ui/lambdas/thumbnail"},
		{"lambda-idle", "/ui/lambdas/report"},
		{"dead", "/ui/dead"},
		{"dead-versions", "/ui/dead?by=version"},
		{"lambdas-budget", "/ui/lambdas?order=budget"},
		{"due", "/ui/due"},
		{"crons", "/ui/crons"},
		{"crons-new", "/ui/crons?lambda=mail"},
		{"cron", "/ui/crons/nightly-report"},
		{"groups", "/ui/groups"},
		{"workers", "/ui/workers"},
		{"jobs", "/ui/jobs"},
		{"audit", "/ui/audit"},
		{"problem", "/ui/nothing"},
		{"tasks-none", "/ui/tasks?q=lambda%3Dnone"},
		{"tasks-wrong", "/ui/tasks?q=state%20%3D%3D%20x"},
	}
	for _, look := range []struct {
		name          string
		width, height int64
		scheme        string
	}{{"light", 1280, 860, "light"}, {"dark", 1280, 860, "dark"}, {"narrow", 390, 844, "light"}} {
		b.look(look.width, look.height, look.scheme)
		for _, p := range pages {
			where := p.name + " in " + look.name
			b.open(p.path)
			if p.name == "now" || strings.HasPrefix(p.path, "/ui/lambdas/") {
				b.do(chromedp.WaitReady(".plot canvas"))
			}
			var headings, wide int
			b.eval(`document.querySelectorAll('h1').length`, &headings)
			b.eval(`document.documentElement.scrollWidth - innerWidth`, &wide)
			if headings != 1 || wide > 0 {
				t.Errorf("%s: %d headings, and %d pixels wider than the window", where, headings, wide)
			}
			if b.eval(`Math.max(0, ...[...document.querySelectorAll('.scroll:has(.tasks)')].map((box) => box.scrollWidth - box.clientWidth))`, &wide); wide > 0 && look.width == 1280 {
				t.Errorf("%s: the list of tasks is %d pixels wider than its box", where, wide)
			}
			if look.name == "narrow" {
				b.nothingOffScreen(where)
			}
			b.accessible(where)
			b.picture(p.name + "-" + look.name)
			b.fine(where)
		}
	}
}

// nothingOffScreen fails if a button, a time or an error is not wholly on the screen without scrolling sideways.
func (b *browser) nothingOffScreen(where string) {
	b.t.Helper()
	var off string
	b.eval(`[...document.querySelectorAll('main button, main time, main .error, main .wrong, main .badge, .problem')].filter((e) => {
		const r = e.getBoundingClientRect();
		return r.width && e.checkVisibility() && (r.right > innerWidth + 1 || r.left < -1);
	}).map((e) => e.outerHTML.slice(0, 90) + ' at ' + Math.round(e.getBoundingClientRect().right)).slice(0, 6).join('\n')`, &off)
	if off != "" {
		b.t.Errorf("%s: off the screen:\n%s", where, off)
	}
}

// Texts that users put into keys, tags, payloads and errors are shown, and do nothing.
func TestNothingThatUsersWriteRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	for i, text := range evil {
		b.open("/ui/tasks/" + s.ids["evil"+string(rune('0'+i))] + "?payload=show")
		var injected int
		b.eval(`document.querySelectorAll('main script, main img[src="x"], main svg[onload], main [onerror], main [hx-on\\:click], main a[href^="javascript"]').length`, &injected)
		if injected > 0 {
			t.Errorf("%q made markup", text)
		}
		b.open("/ui/tasks?q=" + url.QueryEscape("key=\""+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace("evil "+text)+"\""))
		b.has("webhook")
		b.open("/ui/tasks?q=" + url.QueryEscape(text))
		b.fine(text)
	}
	b.open("/ui/dead")
	b.fine("dead letters")
}

// An operator pauses a lambda, cancels two tasks, redrives what died of one error, and reads the audit log.
func TestAnOperatorsHour(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	b.look(1280, 860, "light")

	b.open("/ui/lambdas/mail")
	b.submit(chromedp.Click(`//button[text()="Pause"]`))
	b.has("Paused everywhere", "mail was paused: no reason given", "Resume")
	b.picture("paused")
	b.accessible("a lambda that one click has paused")
	b.submit(chromedp.SendKeys(`//label[text()="Why?"]/following-sibling::input`, "a bad deploy"), chromedp.Click(`//button[text()="Say why"]`))
	b.has("mail was paused: a bad deploy")
	b.open("/ui/")
	b.do(chromedp.WaitVisible(`//*[@class="changed"][not(contains(., "mail was resumed"))]//a[contains(., "mail was paused: a bad deploy")]`))
	b.submit(chromedp.Click(`//*[@class="changed"]//a[contains(., "mail was paused: a bad deploy")]`))
	b.submit(chromedp.Click(`//button[text()="Resume"]`))
	b.has("Resumed.", "nothing is paused")
	b.submit(chromedp.Click(`//summary[text()="Pause some, or until…"]`), chromedp.SendKeys(`#reason-pause`, "database maintenance"), chromedp.SendKeys(`#for-pause`, "1h"),
		chromedp.Click(`//button[text()="Count what it would hold"]`))
	b.has("Pause mail?", "database maintenance", "more in the next hour")
	b.picture("pause")
	b.accessible("the plan of a gate")
	b.submit(chromedp.Click(`.plan button.danger`))
	b.has("Paused everywhere", "database maintenance", "until")
	b.submit(chromedp.Click(`//summary[text()="Resume slowly…"]`), chromedp.SendKeys(`//label[text()="Tasks per second"]/following-sibling::input`, "50"), chromedp.Click(`//button[text()="Resume at this pace"]`))
	b.has("Resumed.")

	b.open("/ui/tasks?q=" + url.QueryEscape("lambda=invoice and state=scheduled"))
	b.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("x"), chromedp.KeyEvent("j"), chromedp.KeyEvent("x"))
	b.submit(chromedp.WaitVisible(`//*[@id="selected" and text()="2 selected"]`), chromedp.Click(`//button[text()="Review…"]`))
	b.has("Cancel: 2 tasks")
	b.accessible("the review of two tasks")
	b.do(chromedp.SendKeys("#reason", "sent twice"), chromedp.Click(".confirm button.danger"), chromedp.WaitVisible(`//p[@role="status" and contains(., "2 tasks were changed")]`))

	b.open("/ui/dead")
	b.submit(chromedp.Click(`(//tr[contains(., "no VAT number")]//button[text()="Redrive…"])[1]`))
	b.has("Redrive: 9 tasks", "customer has no VAT number")
	b.picture("redrive-few")
	b.accessible("the review of a job")
	b.submit(chromedp.SendKeys("#pace", "50"), chromedp.Click(".confirm button.primary"))
	b.do(chromedp.WaitVisible(`//span[contains(@class,"badge") and text()="done"]`))
	b.has("50 tasks per second", "redrive")
	b.picture("job")
	b.accessible("a job")

	b.open("/ui/tasks/" + s.ids["json"] + "?payload=show")
	b.submit(chromedp.Click(`//summary[text()="Replace…"]`), chromedp.SetValue("#payload", `{"user":1}`), chromedp.Click(`//button[text()="Replace"]`))
	b.submit(chromedp.Click(`//summary[text()="Reschedule…"]`), chromedp.SetValue("#when", "3d"), chromedp.Click(`//button[text()="Reschedule"]`))
	b.has("due in 2 d 23 h")
	b.submit(chromedp.Click(`//button[text()="Run now"]`))
	runtest.Eventually(t, 30*time.Second, "run", func() bool {
		r, err := s.client.Get(t.Context(), sdk.ID(s.ids["json"]))
		return err == nil && r.State == sdk.StateSuccess
	})

	b.open("/ui/tasks/new?lambda=mail") // due at a time of the browser's zone
	day := time.Date(time.Now().Year()+1, time.January, 31, 8, 0, 0, 0, time.UTC)
	b.submit(chromedp.SendKeys("#when", day.Format(time.DateOnly)+" 9:00"), chromedp.Click(".fields button.primary"))
	b.do(chromedp.WaitReady(`.timeline time[datetime^="` + day.Format("2006-01-02T15:04:05") + `"]`))

	b.open("/ui/crons/nightly-report")
	b.do(chromedp.Click(`//summary[text()="Change the schedule…"]`), chromedp.SetAttributeValue("#schedule", "value", ""), chromedp.SendKeys("#schedule", "30 4 * * 1"),
		chromedp.WaitVisible(`//*[@id="preview"]//time[contains(., "04:30")]`))
	b.picture("cron-preview")
	b.accessible("the preview of a schedule")
	b.submit(chromedp.Click(`//button[text()="Change"]`))
	b.has("30 4 * * 1")
	b.submit(chromedp.Click(`//summary[text()="Pause…"]`), chromedp.SendKeys("#reason", "quarter end"), chromedp.Click(`//button[text()="Pause"]`))
	b.has("quarter end")

	b.open("/ui/audit")
	b.has("gate.set", "gate.resume", "task.cancel", "job.create", "task.update", "task.reschedule", "cron.pause", "cron.set", "task.read_payload", "anonymous")
	var log string
	b.eval(`document.body.textContent`, &log)
	if !strings.Contains(log, `"reason":"sent twice"`) {
		t.Error("the audit log does not say why tasks were cancelled")
	}
	b.fine("the audit log")
}

// The keys of every page.
func TestKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	b.open("/ui/tasks")
	b.do(chromedp.KeyEvent("/"))
	var at string
	b.eval(`document.activeElement.id`, &at)
	if at != "q" {
		t.Errorf("/ leads to %q", at)
	}
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("?"), chromedp.WaitVisible("dialog[open]"))
	b.accessible("the list of keys")
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotVisible("#help"), chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(".timeline"))
	var zone string
	b.do(chromedp.Text("#zone", &zone))
	if zone != "ago" {
		t.Errorf("times are in %s", zone)
	}
	b.has(" ago")
	var title string
	b.eval(`document.querySelector('main time').title`, &title)
	if !strings.Contains(title, "Europe/Berlin\n") || !strings.HasSuffix(title, " UTC") {
		t.Errorf("the title of a time is %q", title)
	}
	b.do(chromedp.Click("#zone"), chromedp.Text("#zone", &zone))
	if zone != "Europe/Berlin" {
		t.Errorf("times are in %s", zone)
	}
	b.do(chromedp.Click("#zone"))
	b.has(" UTC")
	b.fine("keys")
}

// A visitor who is not signed in is asked to sign in, and then comes to the page that was asked for. Signing
// out ends it.
func TestSignIn(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	path, token := tokenFile(t)
	s := start(t, server.Config{AuthTokenFile: path}, sdk.WithTokenFile(path))
	s.fill(t)
	b := open(t, s.url)
	b.do(chromedp.Navigate(s.url+"/ui/lambdas"), chromedp.WaitVisible("#token"))
	b.accessible("sign-in")
	b.picture("signin")
	b.do(chromedp.SendKeys("#token", strings.Repeat("wrong", 8)), chromedp.Click("button.primary"), chromedp.WaitVisible(".wrong"))
	b.has("not accepted")
	b.do(chromedp.SendKeys("#token", token), chromedp.Click("button.primary"), chromedp.WaitVisible("table"))
	var where string
	b.do(chromedp.Location(&where))
	if where != s.url+"/ui/lambdas" {
		t.Errorf("signed in, at %s", where)
	}
	var cookies string
	b.eval("document.cookie", &cookies)
	if cookies != "" {
		t.Errorf("scripts see %s", cookies)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("other", 8)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runtest.Eventually(t, 30*time.Second, "signed out when the token is replaced", func() bool {
		b.do(chromedp.Navigate(s.url+"/ui/workers"), chromedp.WaitReady("main"), chromedp.Location(&where))
		return strings.Contains(where, "/ui/signin?next=")
	})
}
