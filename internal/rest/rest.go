// Package rest is the plain HTTP API, under /v1: JSON that a person can type, true status codes, and a
// document (OpenAPI 3.1) of all that at /v1/openapi.json.
//
// It is a thin layer over the services of the wire contract. Each route is one operation in the table of
// routes.go, which says method, path and statuses, and a procedure, whose request has a field for each variable of
// the path, each parameter and each field of the body. Requests are routed and decoded, and the document is
// generated, from that table and the contract alone. Tasks and batches have functions of their own. The
// services behind it decide what a call may do, and what becomes of it.
package rest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

// Services are what the API is a layer over. One that is nil answers that this server cannot do it.
type Services struct {
	Tasks   kinesinv1connect.TaskServiceHandler
	Jobs    kinesinv1connect.JobServiceHandler
	Gates   kinesinv1connect.GateServiceHandler
	Crons   kinesinv1connect.CronServiceHandler
	Chains  kinesinv1connect.ChainServiceHandler
	Groups  kinesinv1connect.GroupServiceHandler
	Lambdas kinesinv1connect.LambdaServiceHandler
	// DeadLetters are those of deliver lambdas.
	DeadLetters kinesinv1connect.DeadLetterServiceHandler
	Workers     kinesinv1connect.WorkerServiceHandler
	Quotas      kinesinv1connect.QuotaServiceHandler
	Objectives  kinesinv1connect.ObjectiveServiceHandler
}

// withDefaults returns services without nil.
func (s Services) withDefaults() Services {
	if s.Tasks == nil {
		s.Tasks = kinesinv1connect.UnimplementedTaskServiceHandler{}
	}
	if s.Jobs == nil {
		s.Jobs = kinesinv1connect.UnimplementedJobServiceHandler{}
	}
	if s.Gates == nil {
		s.Gates = kinesinv1connect.UnimplementedGateServiceHandler{}
	}
	if s.Crons == nil {
		s.Crons = kinesinv1connect.UnimplementedCronServiceHandler{}
	}
	if s.Chains == nil {
		s.Chains = kinesinv1connect.UnimplementedChainServiceHandler{}
	}
	if s.Groups == nil {
		s.Groups = kinesinv1connect.UnimplementedGroupServiceHandler{}
	}
	if s.Lambdas == nil {
		s.Lambdas = kinesinv1connect.UnimplementedLambdaServiceHandler{}
	}
	if s.DeadLetters == nil {
		s.DeadLetters = kinesinv1connect.UnimplementedDeadLetterServiceHandler{}
	}
	if s.Quotas == nil {
		s.Quotas = kinesinv1connect.UnimplementedQuotaServiceHandler{}
	}
	if s.Objectives == nil {
		s.Objectives = kinesinv1connect.UnimplementedObjectiveServiceHandler{}
	}
	if s.Workers == nil {
		s.Workers = kinesinv1connect.UnimplementedWorkerServiceHandler{}
	}
	return s
}

type handler struct {
	Services

	hooks    api.Hooks
	routes   []route
	document func() []byte
}

// New returns the handler of all paths that begin with api.PlainPrefix. A call may do what the caller in its
// context may.
func New(services Services, hooks api.Hooks) http.Handler {
	h := &handler{Services: services.withDefaults(), hooks: hooks, routes: routes(services.withDefaults())}
	h.document = sync.OnceValue(func() []byte { return describe(h.routes) })
	return h
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	path := r.URL.EscapedPath()
	if path == documentPath && r.Method == http.MethodGet {
		send(w, http.StatusOK, h.document())
		return
	}
	at, vars, problem := h.find(r.Method, path, w.Header())
	if problem == nil {
		problem = checkContent(at, r)
	}
	if problem != nil {
		problem.Write(w)
		return
	}
	c := &call{handler: h, route: at, w: w, r: r, vars: vars}
	defer c.recovered()
	if err := c.parseQuery(); err != nil {
		c.refuse(err)
		return
	}
	if !at.isConditional && len(r.Header.Values("If-Match")) > 0 {
		c.refuse(invalid("header If-Match is for calls that change one task, and this is none"))
		return
	}
	if at.batch != nil && api.IsBatch(r) {
		c.serveBatch()
		return
	}
	status, answer, err := at.serve(c)
	if err != nil {
		c.refuse(err)
		return
	}
	c.answer(status, answer)
}

// find returns the route of a path and method. A path with a fixed name is another one than that with a
// variable in its place.
func (h *handler) find(method, path string, header http.Header) (*route, map[string]string, *api.HTTPProblem) {
	var allowed []string
	var found *route
	var vars map[string]string
	most := -1
	segments := strings.Split(path, "/")
	for i := range h.routes {
		values, matches := h.routes[i].match(segments)
		switch fixed := h.routes[i].fixed(); {
		case !matches || fixed < most:
			continue
		case fixed > most: // /v1/tasks/count is no task with the id count
			most, found, allowed = fixed, nil, nil
		}
		if allowed = append(allowed, h.routes[i].method); h.routes[i].method == method {
			found, vars = &h.routes[i], values
		}
	}
	if path == documentPath {
		allowed = []string{http.MethodGet}
	}
	if found != nil {
		return found, vars, nil
	}
	if len(allowed) == 0 {
		p := api.StatusProblem(http.StatusNotFound, "nothing is served at "+path+"; GET "+documentPath+" lists what is")
		return nil, nil, &p
	}
	slices.Sort(allowed)
	header.Set("Allow", strings.Join(allowed, ", "))
	p := api.StatusProblem(http.StatusMethodNotAllowed, fmt.Sprintf("%s is not served at %s: want %s", method, path, strings.Join(allowed, " or ")))
	return nil, nil, &p
}

// match reports whether the route has a path, which is given by its encoded segments, and returns what its
// variables stand for. A segment is decoded after the path was cut, so that a variable may have any bytes.
func (r *route) match(segments []string) (map[string]string, bool) {
	if len(segments) != len(r.segments) {
		return nil, false
	}
	vars := map[string]string{}
	for i, want := range r.segments {
		name, isVar := variable(want)
		if !isVar {
			if segments[i] != want {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(segments[i])
		if err != nil || value == "" {
			return nil, false
		}
		vars[name] = value
	}
	return vars, true
}

// fixed tells how much of the route's path is no variable: of two that match the one with more is meant.
func (r *route) fixed() (n int) {
	for _, segment := range r.segments {
		if _, isVar := variable(segment); !isVar {
			n++
		}
	}
	return n
}

// variable returns the name of the variable that a segment of a route is.
func variable(segment string) (name string, is bool) {
	name, is = strings.CutPrefix(segment, "{")
	return strings.TrimSuffix(name, "}"), is
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
	c.refuse(fmt.Errorf("panic: %v\n%s", value, debug.Stack()))
}

// internal tells the hook about an error of which the caller gets no text.
func (h *handler) internal(ctx context.Context, at *route, err error) {
	if h.hooks.Internal != nil {
		h.hooks.Internal(ctx, at.method+" "+at.path, err)
	}
}
