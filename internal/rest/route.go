package rest

import (
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// route is an operation: what it takes and returns, and the function that serves it.
type route struct {
	method, path   string
	segments       []string // of the path; a variable in braces
	id, summary    string
	query          []param
	request        reflect.Type // nil: it has no body
	response       reflect.Type
	successes      []int
	failures       []int
	batch          batchMaker // of a batch that it takes, too, see batch.go; nil: none
	bodyIsOptional bool
	isConditional  bool     // it takes If-Match
	without        []string // fields of the request that the path says, or that are of other routes
	serve          func(c *call) (status int, answer any, err error)
}

// param is a parameter behind the path.
type param struct{ name, kind, text string }

// kinds of parameters.
const (
	kindText     = "string"
	kindFlag     = "boolean"
	kindNumber   = "integer"
	kindDuration = "duration"
)

func (r *route) queryNames() string {
	if len(r.query) == 0 {
		return "none"
	}
	var names []string
	for _, p := range r.query {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

// option says more about a route.
type option func(*route)

// none is the request of a route without a body.
type none struct{}

// everywhere are the failures of every route.
var everywhere = []int{ //nolint:gochecknoglobals // a table
	http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
	http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusNotImplemented, http.StatusServiceUnavailable,
}

// op makes a route of a function. Its types are those of the body and of the answer.
func op[Request, Response any](method, path, id, summary string, serve func(*call, *Request) (int, *Response, error), options ...option) route {
	r := route{
		method: method, path: path, segments: strings.Split(path, "/"), id: id, summary: summary,
		response: reflect.TypeFor[Response](), successes: []int{http.StatusOK}, failures: slices.Clone(everywhere),
	}
	if request := reflect.TypeFor[Request](); request != reflect.TypeFor[none]() {
		r.request = request
	}
	for _, o := range options {
		o(&r)
	}
	r.serve = func(c *call) (int, any, error) {
		var request Request
		if r.request != nil {
			if err := c.decode(&request); err != nil {
				return 0, nil, err
			}
		}
		status, answer, err := serve(c, &request)
		return status, answer, err
	}
	return r
}

func success(statuses ...int) option { return func(r *route) { r.successes = statuses } }

func fails(statuses ...int) option {
	return func(r *route) { r.failures = append(r.failures, statuses...) }
}

func takes(params ...param) option {
	return func(r *route) { r.query = append(r.query, params...) }
}

// without leaves fields of a request out.
func without(names ...string) option { return func(r *route) { r.without = names } }

func optionalBody() option { return func(r *route) { r.bodyIsOptional = true } }

// conditional has a route take the seq that the task must have.
func conditional() option {
	return func(r *route) {
		r.isConditional = true
		r.query = append(r.query, param{"if_seq", kindNumber, "only if the task is at this seq, as the header If-Match says it too"})
		r.failures = append(r.failures, http.StatusConflict, http.StatusPreconditionFailed)
	}
}

// only returns the result of a call about one thing, unless that is a problem.
func only[R interface{ GetProblem() *kinesinv1.Problem }](results []R, err error) (r R, _ error) {
	switch {
	case err != nil:
		return r, err
	case len(results) != 1:
		return r, errCount(len(results))
	}
	return results[0], api.ErrorOf(results[0].GetProblem())
}

func errCount(n int) error {
	return api.Errorf(kinesinv1.Reason_REASON_INTERNAL, "%d results for one request", n)
}

// created is the status of a call that may have created something.
func created(is bool) int {
	if is {
		return http.StatusCreated
	}
	return http.StatusOK
}
