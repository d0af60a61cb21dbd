package rest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// route is an operation: what it takes and returns, and the function that serves it.
type route struct {
	method, path   string
	segments       []string // of the path; a variable in braces
	id, summary    string
	query          []param
	request        protoreflect.MessageDescriptor // nil: it has no body
	response       protoreflect.MessageDescriptor
	successes      []int // the second one: less was done than the first one says
	failures       []int
	batch          batchMaker // of a batch that it takes, too, see batch.go; nil: none
	bodyIsOptional bool
	isConditional  bool                           // it takes If-Match
	without        []string                       // fields of the request that the path says, or that are of other routes
	action         string                         // of the request, where the path says it
	input          protoreflect.MessageDescriptor // of the procedure whose fields the path and the parameters are; nil: see serve
	serve          func(c *call) (status int, answer proto.Message, err error)
}

// param is a parameter behind the path.
type param struct {
	name, text string
	schema     object
}

// schemas of parameters that no field describes.
var (
	aText     = object{"type": "string"}                                 //nolint:gochecknoglobals // a schema
	aFlag     = object{"type": "boolean"}                                //nolint:gochecknoglobals // a schema
	aNumber   = object{"type": "integer", "minimum": 0}                  //nolint:gochecknoglobals // a schema
	aSeq      = object{"type": "integer", "minimum": 1}                  //nolint:gochecknoglobals // a schema
	aDuration = object{"type": "string", "pattern": api.DurationPattern} //nolint:gochecknoglobals // a schema
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

func newRoute(method, path, id, summary string, response protoreflect.MessageDescriptor, options []option) *route {
	r := &route{
		method: method, path: path, segments: strings.Split(path, "/"), id: id, summary: summary,
		response: response, successes: []int{http.StatusOK}, failures: slices.Clone(everywhere),
	}
	for _, segment := range r.segments {
		if name, isVar := variable(segment); isVar {
			r.without = append(r.without, name)
		}
	}
	for _, o := range options {
		o(r)
	}
	return r
}

// messageOf returns a type of the contract as what it is: a message.
func messageOf(m any) proto.Message {
	message, _ := m.(proto.Message)
	return message
}

func descriptorOf[T any]() protoreflect.MessageDescriptor {
	return messageOf(new(T)).ProtoReflect().Descriptor()
}

// op makes a route of a function. Its types are those of the body and of the answer.
func op[Request, Response any](method, path, id, summary string, serve func(*call, *Request) (int, *Response, error), options ...option) route {
	r := newRoute(method, path, id, summary, descriptorOf[Response](), options)
	if message := messageOf(new(Request)); message != nil {
		r.request = message.ProtoReflect().Descriptor()
	}
	r.serve = func(c *call) (int, proto.Message, error) {
		request := new(Request)
		if r.request != nil {
			if err := c.decode(messageOf(request)); err != nil {
				return 0, nil, err
			}
		}
		status, answer, err := serve(c, request)
		return status, messageOf(answer), err
	}
	return *r
}

// plain makes a route of a procedure whose answer is that of the route. The variables of the path are fields of the
// request by their names; the others are in the body, or with GET and DELETE behind the path.
func plain[Request, Response any](method, path, id, summary string, procedure func(context.Context, *Request) (*Response, error), options ...option) route {
	return part(method, path, id, summary, procedure, func(r *Response) *Response { return r }, options...)
}

// part is plain for a procedure of whose answer the route has a part.
func part[Request, Response, Answer any](method, path, id, summary string, procedure func(context.Context, *Request) (*Response, error),
	answer func(*Response) *Answer, options ...option,
) route {
	r := newRoute(method, path, id, summary, descriptorOf[Answer](), options)
	r.bind(descriptorOf[Request]())
	r.serve = func(c *call) (int, proto.Message, error) {
		request := new(Request)
		if err := c.fill(messageOf(request)); err != nil {
			return 0, nil, err
		}
		response, err := procedure(c.r.Context(), request)
		if err != nil {
			return 0, nil, err
		}
		return r.status(request, response), messageOf(answer(response)), nil
	}
	return *r
}

// bind makes the fields of a request, but for those that the path says, the body or the parameters of a route.
func (r *route) bind(request protoreflect.MessageDescriptor) {
	r.input = request
	if r.method == http.MethodGet || r.method == http.MethodDelete {
		left, _ := jsonform.RequestSchemaOf(r.input, nil, r.without...)["properties"].(object)
		for _, name := range slices.Sorted(maps.Keys(left)) {
			schema, _ := left[name].(object)
			text, _ := schema["description"].(string)
			delete(schema, "description")
			r.query = append(r.query, param{name, text, schema})
		}
		return
	}
	schema := jsonform.RequestSchemaOf(r.input, func(protoreflect.MessageDescriptor) object { return object{} }, r.without...)
	if left, _ := schema["properties"].(object); len(left) > 0 {
		r.request, r.bodyIsOptional = request, schema["required"] == nil
	}
}

// fill reads a request from the body, the path and the parameters.
func (c *call) fill(request proto.Message) error {
	if c.route.request != nil {
		if err := c.decode(request); err != nil {
			return err
		}
	}
	for name, value := range c.vars {
		if err := jsonform.SetText(request, name, value); err != nil {
			return err //nolint:wrapcheck // it names the field
		}
	}
	if c.route.action != "" {
		if err := jsonform.SetText(request, "action", c.route.action); err != nil {
			return err //nolint:wrapcheck // it names the field
		}
	}
	for _, p := range c.route.query {
		if !c.query.Has(p.name) || c.query.Get(p.name) == "" {
			continue
		}
		if err := jsonform.SetText(request, p.name, c.query.Get(p.name)); err != nil {
			return invalid("parameter %s: %v", p.name, err)
		}
	}
	return nil
}

// status returns the status of an answer: the second one of the route if nothing was created, because it was there or
// it was asked what would be, or if there is more to do, here or at SQS.
func (r *route) status(request, response any) int {
	dry, _ := request.(interface{ GetDryRun() bool })
	there, _ := response.(interface{ GetDuplicate() bool })
	more, _ := response.(interface{ GetMore() bool })
	moves, _ := response.(interface {
		GetQueues() []*kinesinv1.DeadLetterQueue
	})
	isLess := dry != nil && dry.GetDryRun() || there != nil && there.GetDuplicate() || more != nil && more.GetMore() || moves != nil && len(moves.GetQueues()) > 0
	if len(r.successes) > 1 && isLess {
		return r.successes[1]
	}
	return r.successes[0]
}

func success(statuses ...int) option { return func(r *route) { r.successes = statuses } }

func fails(statuses ...int) option {
	return func(r *route) { r.failures = append(r.failures, statuses...) }
}

func takes(params ...param) option {
	return func(r *route) { r.query = append(r.query, params...) }
}

// without leaves fields of a request out.
func without(names ...string) option {
	return func(r *route) { r.without = append(r.without, names...) }
}

// action sets the action of a request.
func action(verb string) option {
	return func(r *route) { r.action, r.without = verb, append(r.without, "action") }
}

func optionalBody() option { return func(r *route) { r.bodyIsOptional = true } }

// conditional has a route take the seq that the task must have.
func conditional() option {
	return func(r *route) {
		r.isConditional = true
		r.query = append(r.query, param{"if_seq", "only if the task is at this seq, as the header If-Match says it too", aSeq})
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
