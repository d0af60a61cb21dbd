package rest

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// object is a JSON object of the document. Its members are sorted when it is encoded.
type object = map[string]any

const intro = "Durations are texts such as 90s, 5m or 36h. Times are by RFC 3339, in answers in UTC. Unknown fields are refused. " +
	"Refusals are problems by RFC 9457. docs/reference/http.md says what the words mean, with examples."

// describe returns the OpenAPI 3.1 document of routes, in JSON.
func describe(routes []route) []byte {
	d := describer{object{"Problem": structSchema(reflect.TypeFor[api.HTTPProblem](), map[string][]string{"reason": reasons()})}}
	paths := object{"/v1/attempts/{token}": object{"post": reportOperation()}}
	for i := range routes {
		r := &routes[i]
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		at, _ := paths[r.path].(object)
		at[strings.ToLower(r.method)] = d.operation(r)
	}
	problem := object{"$ref": "#/components/schemas/Problem"}
	return append(jsonform.AppendValue(nil, object{
		"openapi": "3.1.0",
		"info":    object{"title": "Kinesin", "version": "1", "description": intro, "license": object{"name": "Apache 2.0", "identifier": "Apache-2.0"}},
		"servers": []object{{"url": "/"}},
		"paths":   paths,
		// A server for one machine asks for no token.
		"security": []object{{"token": []string{}}, {}},
		"components": object{
			"schemas":         d.schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
			"responses":       object{"problem": object{"description": "refused", "content": object{api.ProblemType: object{"schema": problem}}}},
		},
	}), '\n')
}

// structSchema returns the schema of what encoding/json makes of a struct, and names the words that a member may have.
func structSchema(of reflect.Type, words map[string][]string) object {
	properties, required := object{}, []string{}
	for _, field := range reflect.VisibleFields(of) {
		name, omits, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := object{"description": field.Tag.Get("jsonschema")}
		if kind, has := map[reflect.Kind]object{reflect.Int: aNumber, reflect.String: aText}[field.Type.Kind()]; has {
			property["type"] = kind["type"]
		}
		if known := words[name]; known != nil {
			property[jsonform.WordsKey] = known
		}
		properties[name] = property
		if omits == "" {
			required = append(required, name)
		}
	}
	return object{"type": "object", "properties": properties, "required": required}
}

// reportOperation describes the one call beside the routes: its token is what its caller may do.
func reportOperation() object {
	cancel := object{"type": "object", "properties": object{"cancel": object{"type": "boolean", "description": "of running: whether the task was cancelled"}}}
	responses := object{"200": object{"description": "done", "content": object{jsonType: object{"schema": cancel}}}}
	for _, status := range []int{400, 403, 405, 409, 413, 503} {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/problem"}
	}
	return object{
		"operationId": "reportAttempt", "summary": "Report how an attempt ended, or that it runs still, after the target answered 202",
		"security": []object{}, "responses": responses,
		"parameters":  []object{{"name": "token", "in": "path", "required": true, "description": "the header kinesin-callback-token of the call", "schema": object{"type": "string", "minLength": 1}}},
		"requestBody": object{"required": true, "content": object{jsonType: object{"schema": structSchema(reflect.TypeFor[api.AttemptReport](), nil)}}},
	}
}

// reasons returns the words of all reasons.
func reasons() (words []string) {
	values := kinesinv1.Reason(0).Descriptor().Values()
	for i := 1; i < values.Len(); i++ { // 0 is none
		words = append(words, api.HTTPProblemOf(&kinesinv1.Problem{Reason: kinesinv1.Reason(values.Get(i).Number())}).Reason)
	}
	return words
}

// describer describes routes, and collects the schemas of their messages.
type describer struct{ schemas object }

func (d *describer) operation(r *route) object {
	content := object{jsonType: object{"schema": d.message(r.response)}}
	if r.batch != nil {
		content[api.BatchType] = lines("a result for each line, in order: the task, or problem")
	}
	responses := object{}
	for _, status := range r.successes {
		responses[strconv.Itoa(status)] = object{"description": "done", "content": content, "headers": d.headers(r)}
	}
	for _, status := range append(slices.Clone(r.failures), notInTable...) {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/problem"}
	}
	operation := object{"operationId": r.id, "summary": r.summary, "responses": responses}
	if parameters := parametersOf(r); len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	if r.request == nil {
		return operation
	}
	taken := object{jsonType: object{"schema": jsonform.RequestSchemaOf(r.request, d.requested, r.without...)}}
	if r.batch != nil {
		taken[api.BatchType] = lines("a request on each line, as for a single task; empty lines are skipped")
	}
	operation["requestBody"] = object{"required": !r.bodyIsOptional, "content": taken}
	return operation
}

// notInTable are the failures of a request that has the path of a route, and is none of its requests.
var notInTable = []int{404, 405} //nolint:gochecknoglobals // a table

func lines(text string) object {
	return object{"schema": object{"type": "string", "description": text}}
}

func (*describer) headers(r *route) object {
	if r.response.Fields().ByName("seq") != nil {
		return object{"ETag": object{"description": "the seq of the task, for If-Match", "schema": object{"type": "string"}}}
	}
	return object{}
}

func parametersOf(r *route) []object {
	var parameters []object
	for _, segment := range r.segments {
		if name, isVar := variable(segment); isVar {
			parameters = append(parameters, object{
				"name": name, "in": "path", "required": true, "schema": object{"type": "string", "minLength": 1},
			})
		}
	}
	for _, p := range r.query {
		parameter := object{"name": p.name, "in": "query", "schema": p.schema}
		if p.text != "" {
			parameter["description"] = p.text
		}
		parameters = append(parameters, parameter)
	}
	if r.isConditional {
		parameters = append(parameters, object{
			"name": "If-Match", "in": "header", "description": "only if the task has this ETag", "schema": object{"type": "string", "pattern": `^("[1-9][0-9]*"|\*)$`},
		})
	}
	return parameters
}

// requested returns a reference to the schema of a message inside a request, which it adds to the document.
func (d *describer) requested(of protoreflect.MessageDescriptor) object {
	name := string(of.Name()) + "Request"
	if d.schemas[name] == nil {
		d.schemas[name] = object{} // of a message that is inside of itself
		d.schemas[name] = jsonform.RequestSchemaOf(of, d.requested)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// message returns a reference to the schema of a message, which it adds to the document.
func (d *describer) message(of protoreflect.MessageDescriptor) object {
	name := string(of.Name())
	if of.FullName() == "kinesin.v1.Problem" {
		name = "Problem"
	} else if d.schemas[name] == nil {
		d.schemas[name] = object{} // of a message that is inside of itself
		d.schemas[name] = jsonform.SchemaOf(of, d.message)
	}
	return object{"$ref": "#/components/schemas/" + name}
}
