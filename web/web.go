// Package web is the console: server-rendered pages for operators, over the same guarded services that the
// procedures and the plain HTTP API are over, with the identity of the viewer. It owns pages, forms and
// sessions of browsers, and decides nothing about tasks or grants.
package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// Prefix is the beginning of the paths of the console.
const Prefix = "/ui/"

// bodyBytesMax bounds a form.
const bodyBytesMax = 256 << 10

// Services are the guarded services that the console shows and acts through.
type Services struct {
	Tasks       kinesinv1connect.TaskServiceHandler
	Jobs        kinesinv1connect.JobServiceHandler
	Gates       kinesinv1connect.GateServiceHandler
	Crons       kinesinv1connect.CronServiceHandler
	Lambdas     kinesinv1connect.LambdaServiceHandler
	DeadLetters kinesinv1connect.DeadLetterServiceHandler
	Quotas      kinesinv1connect.QuotaServiceHandler
	Inbound     kinesinv1connect.InboundServiceHandler
	Access      kinesinv1connect.AccessServiceHandler
	Chains      kinesinv1connect.ChainServiceHandler
	Groups      kinesinv1connect.GroupServiceHandler
	Objectives  kinesinv1connect.ObjectiveServiceHandler
}

// Config configures a Console.
type Config struct {
	Services

	Source   Source
	Clock    clock.Clock
	Log      *slog.Logger
	Version  string
	ReadOnly bool // offers and takes no changes
	// ForecastRowsMax bounds the rows that one count of what will be due reads; 0: the default.
	ForecastRowsMax int
	// TraceURL is where a trace is shown, with {trace_id} in place of its id; empty: nowhere.
	TraceURL string
	// SignIn checks a token that somebody enters. nil: nobody has to sign in.
	SignIn func(ctx context.Context, r *http.Request, token string) (sessions.Proof, error)
	// Sessions are those of browsers; nil only where nobody signs in.
	Sessions *sessions.Registry
	// Provider signs in elsewhere; nil: tokens alone do. RedirectURL is where it leads back to: CallbackPath
	// under the name that the browser knows; empty: as the browser named the server.
	Provider    Provider
	RedirectURL string
}

// Console serves all paths that begin with Prefix.
type Console struct {
	Config

	live    *live
	streams *streams
	mux     http.Handler
}

// New returns a console.
func New(c Config) *Console {
	k := &Console{Config: c, streams: newStreams()}
	k.live = newLive(&k.Config)
	mux := http.NewServeMux()
	page := func(pattern string, show func(*call) error) { mux.Handle(pattern, k.handle(show)) }
	page("GET /ui/{$}", showNow)
	page("GET /ui/plots/rates", plotRates)
	page("GET /ui/plots/forecast", plotForecast)
	page("GET /ui/due", showDue)
	page("GET /ui/tasks", showTasks)
	page("POST /ui/tasks", actOnTasks)
	page("GET /ui/tasks/{id}", showTask)
	page("POST /ui/tasks/{id}", actOnTask)
	page("GET /ui/key", showKey)
	page("GET /ui/lambdas", showLambdas)
	page("GET /ui/lambdas/{name}", showLambda)
	page("POST /ui/lambdas/{name}", actOnLambda)
	page("GET /ui/dead", showDead)
	page("POST /ui/dead", actOnDead)
	page("GET /ui/dead/rejected/{name}", showRejected)
	page("GET /ui/crons", showCrons)
	page("POST /ui/crons", createCron)
	page("GET /ui/crons/preview", previewCron)
	page("GET /ui/crons/{name}", showCron)
	page("POST /ui/crons/{name}", actOnCron)
	page("GET /ui/workers", showWorkers)
	page("GET /ui/jobs", showJobs)
	page("GET /ui/jobs/{id}", showJob)
	page("POST /ui/jobs/{id}", actOnJob)
	page("GET /ui/audit", showAudit)
	page("GET /ui/signin", showSignIn)
	page("POST /ui/signin", signIn)
	page("GET /ui/signin/provider", signInElsewhere)
	page("GET "+CallbackPath, comeBack)
	page("POST /ui/signout", signOut)
	page("/ui/", func(*call) error { return errNoPage })
	mux.Handle("GET /ui/static/", serveAsset())
	k.mux = http.NewCrossOriginProtection().Handler(mux)
	return k
}

// Needs reports whether a path of the console needs to know who asks for it.
func Needs(path string) bool {
	return strings.HasPrefix(path, Prefix) && path != Prefix+"signin" && !strings.HasPrefix(path, Prefix+"signin/") && !strings.HasPrefix(path, Prefix+"static/")
}

// Has reports whether a path is of the console.
func Has(path string) bool { return path == "/" || path == "/ui" || strings.HasPrefix(path, Prefix) }

// CloseStreams ends the streams of all open pages, and lets none begin.
func (k *Console) CloseStreams() { k.streams.close() }

// ServeHTTP implements http.Handler.
func (k *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.URL.Path == "/" || r.URL.Path == "/ui" {
		http.Redirect(w, r, Prefix, http.StatusFound)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, bodyBytesMax)
	k.mux.ServeHTTP(w, r)
}

// policy lets a page use what this server serves, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}

var (
	errNoPage   = errors.New("there is no such page")
	errReadOnly = errors.New("this console is read-only: serve was started with --console-read-only")
)
