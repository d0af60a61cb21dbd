// Package web is the console: server-rendered pages for operators, over the same guarded services that the
// procedures and the plain HTTP API are over, with the identity of the viewer. It owns pages, forms and
// sessions of browsers, and decides nothing about tasks or grants.
package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"net/url"
	"strings"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/room"
)

// New returns a console.
func New(c Config) *Console {
	k := &Console{Config: c, streams: newStreams()}
	k.live = newLive(&k.Config)
	mux := http.NewServeMux()
	page := func(pattern string, show func(*call) error) { mux.Handle(pattern, k.handle(show)) }
	page("GET /ui/{$}", showNow)
	page("GET /ui/plots/rates", plotRates)
	page("GET /ui/plots/lateness", plotLateness)
	page("GET /ui/plots/failures", plotFailures)
	page("GET /ui/plots/forecast", plotForecast)
	page("GET /ui/due", showDue)
	page("GET /ui/tasks", showTasks)
	page("POST /ui/tasks", actOnTasks)
	page("GET /ui/tasks/new", showSchedule)
	page("POST /ui/tasks/new", schedule)
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
	page("GET /ui/groups", showGroups)
	page("GET /ui/groups/{id}", showGroup)
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

// Prefix is the beginning of the paths of the console.
const Prefix = "/ui/"

// CallbackPath is where the page of a provider leads back to.
const CallbackPath = Prefix + "signin/callback"

// Has reports whether a path is of the console.
func Has(path string) bool { return path == "/" || path == "/ui" || strings.HasPrefix(path, Prefix) }

// Needs reports whether a path of the console needs to know who asks for it.
func Needs(path string) bool {
	return strings.HasPrefix(path, Prefix) && path != Prefix+"signin" && !strings.HasPrefix(path, Prefix+"signin/") && !strings.HasPrefix(path, Prefix+"static/")
}

// withQuery returns a path with those names and values whose value is not empty.
func withQuery(path string, pairs ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	if len(values) == 0 {
		return path
	}
	return path + "?" + values.Encode()
}

func pathTo(section, name string) string { return Prefix + section + "/" + url.PathEscape(name) }

func taskPath(id string) string     { return pathTo("tasks", id) }
func lambdaPath(name string) string { return pathTo("lambdas", name) }
func cronPath(name string) string   { return pathTo("crons", name) }
func jobPath(id string) string      { return pathTo("jobs", id) }

// tasksPath leads to the tasks of a filter, in an order unless that is empty, from a cursor on.
func tasksPath(where, order, cursor string) string {
	return withQuery(Prefix+"tasks", "q", where, "order", order, "cursor", cursor)
}

// Bounds of a form.
const (
	bodyBytesMax = 256 << 10
	// SignInBytesMax bounds the forms of those who are not signed in.
	SignInBytesMax = 16 << 10
)

func formBytesMax(path string) int64 {
	if !Needs(path) {
		return SignInBytesMax
	}
	return bodyBytesMax
}

// Console serves all paths that begin with Prefix.
type Console struct {
	Config

	live    *live
	streams *streams
	mux     http.Handler
}

// CloseStreams ends the streams of all open pages, and lets none begin.
func (k *Console) CloseStreams() { k.streams.close() }

// Rooms returns what viewers share.
func (k *Console) Rooms() []*room.Room { return []*room.Room{k.streams.room, k.streams.partsRoom} }

// ServeHTTP implements http.Handler.
func (k *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if r.URL.Path == "/" || r.URL.Path == "/ui" {
		http.Redirect(w, r, Prefix, http.StatusFound)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax(r.URL.Path))
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

// send sends a body, zipped if the browser takes that and it is known or worth it.
func send(w http.ResponseWriter, r *http.Request, plain, zipped []byte) {
	const worth = 1400 // bytes that fit into one packet
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && len(plain) > worth {
		if zipped == nil {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
			_, _ = z.Write(plain)
			_ = z.Close()
			zipped = b.Bytes()
		}
		w.Header().Set("Content-Encoding", "gzip")
		plain = zipped
	}
	_, _ = w.Write(plain) // fails only if the browser has gone
}
