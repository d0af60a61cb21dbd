package web

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	g "maragu.dev/gomponents"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
)

// call is one request for a page.
type call struct {
	*Console

	w http.ResponseWriter
	r *http.Request

	caller  access.Caller
	session *sessions.Session // nil: not signed in by a form
}

// answer answers with a page, or with one that says what went wrong.
func (c *call) answer(show func(*call) error) {
	defer c.recovered()
	r := c.r
	if r.Method == http.MethodPost && c.ReadOnly && Needs(r.URL.Path) && r.URL.Path != Prefix+"signout" {
		c.fail(errReadOnly)
		return
	}
	if r.Method == http.MethodPost {
		err := r.ParseForm()
		if refused, is := errors.AsType[*api.Error](err); is {
			c.fail(refused)
			return
		}
		if err != nil {
			c.fail(invalid("this form cannot be read, or is larger than %d bytes", formBytesMax(r.URL.Path)))
			return
		}
	}
	if err := show(c); err != nil {
		c.fail(err)
	}
}

// recovered answers a panic as an internal error.
func (c *call) recovered() {
	value := recover()
	if value == nil {
		return
	}
	if value == http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		panic(value)
	}
	c.fail(fmt.Errorf("panic: %v\n%s", value, debug.Stack()))
}

// show answers with a page.
func (c *call) show(title, nav string, main g.Node) error {
	return c.showStatus(http.StatusOK, title, nav, main)
}

func (c *call) showStatus(status int, title, nav string, main g.Node) error {
	p := page{
		Title: title, Nav: nav, Who: c.caller.Name, SignedIn: c.session != nil, SeesFleet: c.seesFleet(), SeesAudit: c.seesAudit(), ReadOnly: c.ReadOnly, Version: c.Version,
	}
	if c.r.Method != http.MethodPost { // a form of a page that said so goes to the same URL
		p.Done = doneTexts[c.r.URL.Query().Get("done")]
	}
	return c.render(status, fullPage(&p, main))
}

// part answers with a part of a page, for one that is shown already.
func (c *call) part(part g.Node) error { return c.render(http.StatusOK, part) }

func (c *call) render(status int, markup g.Node) error {
	var b bytes.Buffer
	if err := markup.Render(&b); err != nil {
		return err
	}
	c.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	c.w.Header().Set("Vary", "Accept-Encoding")
	if status != http.StatusOK {
		c.w.WriteHeader(status) // before send, which then adds nothing to the header
		_, _ = c.w.Write(b.Bytes())
		return nil
	}
	send(c.w, c.r, b.Bytes(), nil)
	return nil
}

func (c *call) fail(err error) {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		c.Log.ErrorContext(c.r.Context(), "console failed", slog.String("path", c.r.URL.Path), slog.Any("error", err))
	}
	back := ""
	if c.r.Method == http.MethodPost {
		back = c.r.URL.EscapedPath()
	}
	if renderErr := c.showStatus(p.Status, p.Title, "", problemPage(p, back)); renderErr != nil {
		http.Error(c.w, "the console failed", http.StatusInternalServerError)
	}
}

// doneTexts are what an action says afterwards. The URL names one of them, and can show nothing else.
var doneTexts = map[string]string{ //nolint:gochecknoglobals // a table
	"scheduled": "Scheduled.", "scheduled-before": "Nothing was scheduled: this task has the key, and is the same.",
	"cancelled": "Cancelled. A task that was running was asked to stop.", "rescheduled": "Moved to its new time.", "started": "It starts as soon as a worker is free.",
	"redriven": "It starts anew, under the same id.", "replaced": "Replaced.", "redriven-with": "It starts anew with the new payload, under the same id.",
	"cron-created": "Created.", "objective": "The objective is set.", "objective-deleted": "The objective is gone.", "paused": "Paused everywhere within 2 seconds.", "resumed": "Resumed.",
	"cron-paused": "The cron does not fire until it is resumed.", "cron-resumed": "The cron fires again.", "cron-changed": "Changed. The new schedule holds in five seconds.",
	"cron-ran": "A task was scheduled, besides the occurrences.", "job": "The job has begun.", "changed": "Done.", "quota": "The quota holds everywhere within 2 seconds.",
}

// goTo sends the browser to another page after an action.
func (c *call) goTo(path, done string) error {
	if done != "" {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		path += separator + "done=" + url.QueryEscape(done)
	}
	http.Redirect(c.w, c.r, path, http.StatusSeeOther)
	return nil
}

// mayOperate reports whether the viewer may operate a whole lambda; what he may not do is not offered.
func (c *call) mayOperate(lambda string) bool {
	return !c.ReadOnly && c.caller.Grants.Allow(access.Operate, lambda)
}

// mayIn reports whether he has a verb in a collection.
func (c *call) mayIn(v access.Verb, lambda, collection string) bool {
	return !c.ReadOnly && c.caller.Grants.AllowIn(v, lambda, collection)
}

// mayAny reports whether he has a verb on anything.
func (c *call) mayAny(v access.Verb) bool { return !c.ReadOnly && c.caller.Grants.Have(v) }

// sees reports whether he may read a whole lambda.
func (c *call) sees(lambda string) bool { return c.caller.Grants.Allow(access.Read, lambda) }

// seesFleet reports whether the viewer may see what is of the whole installation, as /metrics shows it.
func (c *call) seesFleet() bool { return c.caller.Grants.AllowAll(access.Metrics) }

// seesAudit reports whether the viewer may read the audit log.
func (c *call) seesAudit() bool { return c.caller.Grants.AllowAll(access.Admin) }

// fleetDenied is the refusal of what seesFleet guards.
func (c *call) fleetDenied() error {
	return problemError{problem{http.StatusForbidden, "Permission denied", c.caller.Denied(access.Metrics, "").Error() + ".", "An administrator grants metrics with a token or in the policy file."}}
}

// reasonBytesMax bounds what somebody says of why work is stopped.
const reasonBytesMax = 512

// because notes why somebody stops work: with what the audit log keeps of it.
func (c *call) because() error {
	reason := c.field("reason")
	switch {
	case reason == "":
		return invalid("say why: the audit log keeps it for those who look next")
	case len(reason) > reasonBytesMax:
		return invalid("the reason has %d bytes: want at most %d", len(reason), reasonBytesMax)
	}
	c.caller.Reason = reason
	c.r = c.r.WithContext(access.With(c.r.Context(), c.caller))
	return nil
}

// field returns a value of a form or of the query.
func (c *call) field(name string) string { return strings.TrimSpace(c.r.FormValue(name)) }

// payload returns what was typed as one. Browsers send line ends as CR LF.
func (c *call) payload() []byte {
	return []byte(strings.ReplaceAll(c.r.FormValue("payload"), "\r\n", "\n"))
}

func (c *call) now() time.Time { return c.Clock.Now().Time() }

// problem is what went wrong.
type problem struct {
	Status int
	Title  string
	Text   string
	Advice string
}

// problemError is an error that says by itself what a viewer reads.
type problemError struct{ problem }

// Error returns the text.
func (p problemError) Error() string { return p.Text }

var (
	errNoPage   = errors.New("there is no such page")
	errReadOnly = errors.New("this console is read-only: serve was started with --console-read-only")
)

func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}

// problemOf returns what an error says to a viewer. Of an internal one he learns nothing but that.
func problemOf(err error) problem {
	var own problemError
	switch {
	case errors.As(err, &own):
		return own.problem
	case errors.Is(err, errNoPage):
		return problem{http.StatusNotFound, "No such page", "There is no page of this name.", "The menu leads to all pages."}
	case errors.Is(err, errReadOnly):
		return problem{http.StatusForbidden, "Read-only", err.Error() + ".", "Use the command line, or a console that is not read-only."}
	}
	p := api.HTTPProblemOf(api.ProblemOf(err))
	of := problem{Status: p.Status, Title: strings.ToUpper(p.Title[:1]) + p.Title[1:], Text: p.Detail}
	switch p.Status {
	case http.StatusForbidden:
		of.Advice = "An administrator grants rights with a token or in the policy file."
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		of.Advice = "Try again in a moment."
	case http.StatusNotImplemented:
		of.Advice = "Ask a server with the role inbound."
	}
	return of
}

// parseDuration reads a duration such as 90s, 10m, 2h or 3d.
func parseDuration(text string) (time.Duration, error) {
	d, err := api.ParseDuration(text)
	if err != nil {
		return 0, invalid("duration %v", err)
	}
	return d, nil
}

// parsePace reads tasks per second; empty: none given.
func parsePace(text string) (uint32, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, invalid("pace %q: want a whole number of tasks per second, or nothing", text)
	}
	return uint32(n), nil
}

// newRequest makes an id of a form, so that it does what it does once however often it is sent.
func newRequest() string {
	id, err := uuid.NewV7()
	if err != nil {
		return ""
	}
	return id.String()
}

// requestID reads one.
func requestID(text string) []byte {
	id, err := uuid.Parse(text)
	if err != nil {
		return nil
	}
	return id[:]
}
