package web

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/chromedp/chromedp"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/server"
	"github.com/kinesin-io/kinesin/test/showcase"
)

// killedEnv makes this program a worker at a server, whose task ends it.
const killedEnv = "KINESIN_TEST_KILLED_AT"

func TestMain(m *testing.M) {
	if at := os.Getenv(killedEnv); at != "" {
		client, err := sdk.NewClient(at)
		if err == nil {
			err = showcase.WorkUntilKilled(context.Background(), client)
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// tasksEnv is how many tasks the installation of TestFourQuestions has: a small one unless somebody asks.
const tasksEnv = "KINESIN_SHOWCASE_TASKS"

// show starts a server with the installation of package showcase, its workers and the one that is killed.
func show(t *testing.T) (*site, showcase.Tasks) {
	t.Helper()
	tasks := 20_000
	if text := os.Getenv(tasksEnv); text != "" {
		var err error
		if tasks, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, server.Config{})
	made, err := showcase.Fill(t.Context(), s.client, tasks, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = showcase.Work(ctx, s.client) }()
	t.Cleanup(func() { stop(); <-done })
	runtest.Eventually(t, 30*time.Second, "dead by its workers", func() bool {
		worker := exec.CommandContext(t.Context(), os.Args[0])
		worker.Env = append(os.Environ(), killedEnv+"="+s.url)
		go func() { _ = worker.Run() }()
		time.Sleep(time.Second)
		r, err := s.client.Get(t.Context(), made.Poison)
		return err == nil && r.State == sdk.StateDead
	})
	runtest.Eventually(t, 30*time.Second, "dead of a timeout", func() bool {
		n, err := s.client.Count(t.Context(), `lambda=webhook and state=dead and tag.customer=acme and error~"timeout"`, true)
		return err == nil && n.Count == int64(made.Dead)
	})
	return s, made
}

// Somebody who looks for the first time finds with the console alone why a task is late, which lambda burns
// its budget, what of a customer died of a timeout, which is redriven at 50 a second, and what is due at
// midnight.
func TestFourQuestions(t *testing.T) {
	if testing.Short() {
		t.Skip("runs a browser")
	}
	s, made := show(t)
	b := open(t, s.url)
	b.look(1280, 520, "light")

	t.Run("why is a task late", func(t *testing.T) {
		for id, why := range map[sdk.ID]string{made.Paused: "the image service is being moved", made.Late: "20 starts a second"} {
			b.open("/ui/tasks")
			b.submit(chromedp.SendKeys("#q", string(id)+"\r"))
			text := b.text()
			if r, err := s.client.Get(t.Context(), id); err == nil && r.Attempt > 0 {
				continue // it was late, and has started
			}
			for _, want := range []string{"It waits", why, "overdue for"} {
				if !strings.Contains(text, want) {
					t.Errorf("the page does not say %q: %s", want, text)
				}
			}
		}
		b.open("/ui/tasks/" + string(made.Paused))
		b.picture("why-late")
		b.accessible("a task that waits")
		b.submit(chromedp.Click(`//a[text()="See what holds thumbnail back"]`))
		b.has("Held back", "the image service is being moved", "Resume")
	})
	t.Run("which lambda burns its budget", func(t *testing.T) {
		b.open("/ui/")
		b.do(chromedp.WaitReady(".plot canvas"), chromedp.WaitVisible(`//*[@id="live"]//a[contains(., "push has used up its error budget")]`))
		b.has("Look at this first")
		b.picture("showcase-now")
		b.accessible("the first page with problems")
		b.submit(chromedp.Click(`//*[@id="live"]//a[contains(., "push has used up")]`))
		b.has("99 % start within 5.0 s", "the error budget is used ")
		if text := b.text(); !strings.Contains(text, "20.0") { // starts a second, which its quota allows
			t.Error("the page does not show the quota:", text)
		}
		b.look(1280, 700, "light")
		b.picture("budget")
		b.look(1280, 520, "light")
		b.open("/ui/lambdas")
		b.submit(chromedp.Click(`//a[text()="Least error budget first"]`))
		var first string
		b.eval(`document.querySelector('tbody tr a').textContent`, &first)
		if first != showcase.Burning {
			t.Errorf("%s has least error budget left", first)
		}
	})
	t.Run("what of a customer died of a timeout", func(t *testing.T) {
		b.open("/ui/dead")
		b.do(chromedp.SetValue("#q", `tag.customer=acme`), chromedp.SetValue("#since", "12h"))
		b.submit(chromedp.Click(`//button[text()="Show"]`))
		b.has(showcase.Timeout, showcase.Refused, strconv.Itoa(made.Dead))
		b.picture("died-of-timeout")
		b.accessible("dead letters of a customer")
		b.submit(chromedp.Click(`(//tr[contains(., "timeout awaiting")]//button[text()="Redrive…"])[1]`))
		b.has("Redrive: " + strconv.Itoa(made.Dead) + " tasks")
		b.do(chromedp.SendKeys("#pace", "50"))
		b.picture("redrive")
		b.submit(chromedp.Click(".confirm button.primary"))
		b.do(chromedp.WaitVisible(`//span[contains(@class,"badge") and text()="done"]`))
		b.has("50 tasks per second")
		runtest.Eventually(t, 30*time.Second, "run again", func() bool {
			n, err := s.client.Count(t.Context(), `lambda=webhook and state=success and tag.customer=acme`, true)
			return err == nil && n.Count == int64(made.Dead)
		})
	})
	t.Run("what is due at midnight", func(t *testing.T) {
		b.open("/ui/")
		b.submit(chromedp.Click(`//a[text()="By half hour and lambda"]`))
		midnight := made.Midnight.Format("2006-01-02T15:04:05.000Z")
		b.do(chromedp.Click("#zone"), chromedp.Click("#zone")) // midnight is that of UTC
		var row string
		b.eval(`document.querySelector('tbody time[datetime="`+midnight+`"]').closest('tr').textContent`, &row)
		digits := strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return -1
			}
			return r
		}, row)
		if !strings.Contains(digits, showcase.Nightly+strconv.Itoa(made.AtMidnight)) {
			t.Errorf("at %s is due: %s", midnight, row)
		}
		b.look(1280, 360, "light")
		b.do(chromedp.Evaluate(`document.querySelector('tbody time[datetime="`+midnight+`"]').scrollIntoView({block: 'center'})`, nil))
		b.picture("midnight")
		b.look(1280, 520, "light")
		b.accessible("what is due")
		b.do(chromedp.Click("#zone"))
		b.do(chromedp.Evaluate(`document.querySelector('tbody time[datetime="`+midnight+`"]').closest('tr').querySelector('a').click()`, nil), chromedp.WaitVisible("table.tasks"))
		b.has(showcase.Nightly)
	})
	b.fine("four questions")

	// The time of the server for each page; a bound for a machine that does other things, too.
	const serverTimeMax = 2 * time.Second
	for _, path := range []string{"", "tasks", "tasks?order=-ended", "tasks?q=" + url.QueryEscape(`tag.customer=acme and state=dead and ended>-12h`), "tasks/" + string(made.Paused), "lambdas", "lambdas/export", "dead", "due", "crons", "groups", "workers", "jobs", "audit"} {
		began := time.Now()
		response, err := http.Get(s.url + "/ui/" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if took := time.Since(began); response.StatusCode != http.StatusOK || took > serverTimeMax {
			t.Errorf("/ui/%s: %s after %s", path, response.Status, took)
		} else {
			t.Logf("/ui/%s: %s", path, took.Round(100*time.Microsecond))
		}
	}
}
