// Package web is the console: server-rendered pages for operators, over the same guarded services that the
// procedures and the plain HTTP API are over, with the identity of the viewer. It owns pages, forms and
// sessions of browsers, and decides nothing about tasks or grants.
package web

import (
	"net/http"

	"github.com/kinesin-io/kinesin/internal/access"
)

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

// handle answers with a page, or with a page that says what went wrong.
func (k *Console) handle(show func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Console: k, w: w, r: r, caller: access.From(r.Context())}
		if Needs(r.URL.Path) {
			if s, err := k.Session(r); err == nil {
				c.session = s
				k.renew(w, r, s)
			}
		}
		if isStream(r) {
			c.stream(show)
			return
		}
		c.answer(show)
	})
}
