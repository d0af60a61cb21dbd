package web

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/server"
)

// The page of a task shows what came before and after it, and where its trace is.
func TestATaskAmongOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{TraceURL: "https://traces.example/trace/{trace_id}"})
	s.fill(t)
	b := open(t, s.url)
	b.open("/ui/tasks/" + s.ids["chain"])
	b.has("Chain", "then", "else", "skipped", "invoice")
	var trace, self string
	b.eval(`document.querySelector('a[href^="https://traces"]').href`, &trace)
	b.eval(`document.querySelector('.tree a[aria-current]').textContent`, &self)
	if trace != "https://traces.example/trace/0af7651916cd43dd8448eb211c80319c" || self != "mail" {
		t.Errorf("trace at %q, this task is %q", trace, self)
	}
	b.submit(chromedp.Click(`//ol[@class="tree"]//a[text()="report"]`))
	b.has("due in", "Chain", "success")
	b.open("/ui/tasks/" + s.ids["member"])
	b.has("Group", "2 members", "Its follow-up", "open")
	b.accessible("the page of a member")
	b.submit(chromedp.Click(`//nav//a[text()="Chains"]`))
	b.has("mail", "success", "report", "open")
	b.submit(chromedp.Click(`//section[@aria-labelledby="groups-title"]//td[@class="id"]/a`))
	b.has("Group", "2 members", "Its follow-up", "open")
	b.accessible("the page of a group")
	b.picture("group")
	b.fine("chains and groups")
}

// Dead tasks are grouped by the version of workers; one task gets another payload and starts anew.
func TestTheDeadAreMended(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	b.open("/ui/dead")
	b.submit(chromedp.Click(`//a[text()="By worker version"]`))
	b.has("2.4.1", "invoice", "webhook")
	b.accessible("dead letters by version")
	b.submit(chromedp.Click(`(//tr[contains(., "2.4.1")]//button[text()="Redrive…"])[1]`))
	b.has(`worker~"@2.4.1-"`, "Redrive:")

	b.open("/ui/tasks/" + s.ids["dead"])
	b.has("version 2.4.1")
	b.submit(chromedp.Click(`//summary[text()="Edit and redrive…"]`), chromedp.SetValue("#payload", "mended"), chromedp.Click(`//button[text()="Redrive with it"]`))
	b.has("It starts anew with the new payload")
	runtest.Eventually(t, 30*time.Second, "run", func() bool {
		r, err := s.client.Get(t.Context(), sdk.ID(s.ids["dead"]))
		return err == nil && r.State == sdk.StateSuccess
	})
	b.fine("mending")
}

// A task is scheduled from a form, which says beside a field what is wrong with it.
func TestATaskIsScheduled(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	b.open("/ui/lambdas/mail")
	b.submit(chromedp.Click(`//a[text()="Schedule a task…"]`))
	b.submit(chromedp.SendKeys("#payload", "Ada"), chromedp.SendKeys("#when", "3d"), chromedp.SendKeys("#key", "from-a-form"), chromedp.SendKeys("#priority", "urgent"), chromedp.Click(`//button[text()="Schedule"]`))
	b.do(chromedp.WaitVisible("#priority-wrong"))
	b.has(`invalid priority "urgent"`)
	b.accessible("a form with a mistake")
	b.submit(chromedp.SetValue("#priority", "high"), chromedp.Click(`//button[text()="Schedule"]`))
	b.has("Scheduled.", "due in 2 d 23 h", "from-a-form", "Ada")
	b.open("/ui/tasks")
	b.submit(chromedp.SendKeys("#q", "from-a-form\r"))
	b.has(`any~"from-a-form"`, "mail")
	b.fine("scheduling")
}

// A cron is created with a look at its times, refused where it is wrong, and filled back.
func TestACronIsCreated(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	b.open("/ui/crons")
	b.do(chromedp.Click(`//summary[text()="Create…"]`), chromedp.SendKeys("#name", "digest"), chromedp.SetValue("#lambda", "mail"), chromedp.SendKeys("#zone-name", "Europe/Paris"),
		chromedp.WaitVisible(`//*[@id="preview"]//*[contains(., "CEST")]`), chromedp.WaitVisible(`//*[@id="preview"]//p[contains(., "change of clocks")]`))
	b.accessible("the form of a cron")
	b.picture("cron-create")
	b.submit(chromedp.SetValue("#schedule", "0 25 * * *"), chromedp.Click(`//button[text()="Create"]`))
	b.has("Create…", "25")
	b.submit(chromedp.SetValue("#schedule", "0 2 * * *"), chromedp.Click(`//button[text()="Create"]`))
	b.has("Created.", "digest", "Europe/Paris")
	b.submit(chromedp.Click(`//summary[text()="Backfill…"]`), chromedp.SendKeys("#from", "3d"), chromedp.Click(`//button[text()="Count them"]`))
	b.has("It would schedule 3 tasks")
	b.accessible("the plan of a backfill")
	b.submit(chromedp.Click(`//button[text()="Backfill"]`))
	b.do(chromedp.WaitVisible(`//span[contains(@class,"badge") and text()="done"]`))
	b.open("/ui/crons/digest")
	b.has("success")
}

// Nothing moves under the hand of whoever reads: not when times get their zone, plots their data and live
// parts their first state.
func TestNothingJumps(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	const shifts = `new Promise((done) => { let sum = 0; new PerformanceObserver((list) => { for (const e of list.getEntries()) sum += e.value; }).observe({ type: 'layout-shift', buffered: true }); setTimeout(() => done(sum), 1200); })`
	var seen float64
	b.open("/ui/tasks")
	b.eval(`document.querySelector('h1').style.marginTop = '200px', `+shifts, &seen)
	if seen == 0 {
		t.Fatal("a move is not noticed")
	}
	for _, width := range []int64{1280, 390} {
		b.look(width, 860, "light")
		for _, path := range []string{"/ui/", "/ui/tasks", "/ui/tasks/" + s.ids["dead"], "/ui/lambdas", "/ui/lambdas/mail", "/ui/dead", "/ui/due", "/ui/crons", "/ui/groups", "/ui/workers", "/ui/audit"} {
			b.open(path)
			var shift float64
			b.eval(shifts, &shift)
			const shiftMax = 0.01
			if shift > shiftMax {
				t.Errorf("%s, %d pixels wide, moves by %.3f", path, width, shift)
			}
		}
	}
}

// An objective is set, and shown with what is left of its budget.
func TestAnObjectiveIsSet(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s := start(t, server.Config{})
	s.fill(t)
	b := open(t, s.url)
	b.open("/ui/lambdas/mail")
	b.has("nobody has said how late")
	b.submit(chromedp.Click(`//summary[text()="Set an objective…"]`), chromedp.SendKeys("#objective", "99.9"), chromedp.SendKeys("#within", "5s"), chromedp.Click(`//section[@aria-labelledby="objective-title"]//button[text()="Set"]`))
	b.has("99.9 % start within 5.0 s", "of the error budget left")
	b.accessible("an objective")
	b.picture("objective")
	b.open("/ui/lambdas?order=budget")
	var first string
	b.eval(`document.querySelector('tbody tr a').textContent`, &first)
	if first != "mail" {
		t.Errorf("%q is first by its budget", first)
	}
	b.open("/ui/lambdas/mail")
	b.submit(chromedp.Click(`//summary[text()="Delete the objective…"]`), chromedp.Click(`//button[text()="Delete the objective"]`))
	b.has("The objective is gone.")
	b.open("/ui/audit")
	b.has("Newest first", "objective.delete", "objective.set")
	b.fine("objectives")
}
