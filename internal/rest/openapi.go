package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// object is a JSON object of the document. Its members are sorted when it is encoded.
type object = map[string]any

const intro = "Durations are texts such as 90s, 5m or 36h. Times are by RFC 3339, in answers in UTC. Unknown fields are refused. " +
	"Refusals are problems by RFC 9457. docs/http.md says what the words mean, with examples."

// describe returns the OpenAPI 3.1 document of routes, in JSON.
func describe(routes []route) ([]byte, error) {
	d := describer{schemas: object{}, names: map[reflect.Type]string{}}
	paths := object{}
	for i := range routes {
		r := &routes[i]
		operation, err := d.operation(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		at, _ := paths[r.path].(object)
		at[strings.ToLower(r.method)] = operation
	}
	problem, err := d.ref(reflect.TypeFor[api.HTTPProblem](), false)
	if err != nil {
		return nil, err
	}
	return encode(object{
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
	})
}

// describer describes routes, and collects the schemas of their types.
type describer struct {
	schemas object
	names   map[reflect.Type]string
}

func (d *describer) operation(r *route) (object, error) {
	answer, err := d.answer(r.response)
	if err != nil {
		return nil, err
	}
	content := object{jsonType: object{"schema": answer}}
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
		return operation, nil
	}
	request, err := d.request(r)
	if err != nil {
		return nil, err
	}
	taken := object{jsonType: object{"schema": request}}
	if r.batch != nil {
		taken[api.BatchType] = lines("a request on each line, as for a single task; empty lines are skipped")
	}
	operation["requestBody"] = object{"required": !r.bodyIsOptional, "content": taken}
	return operation, nil
}

// notInTable are the failures of a request that has the path of a route, and is none of its requests.
var notInTable = []int{404, 405} //nolint:gochecknoglobals // a table

func lines(text string) object {
	return object{"schema": object{"type": "string", "description": text}}
}

func (*describer) headers(r *route) object {
	if _, hasSeq := reflect.TypeAssert[tagged](reflect.New(r.response)); hasSeq {
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

// own are the schemas of types with a form of their own.
func own() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[duration](): {Type: "string", Pattern: api.DurationPattern, Examples: []any{"90s"}},
		reflect.TypeFor[moment]():   {Type: "string", Format: "date-time", Examples: []any{"2027-01-31T09:00:00Z"}},
		reflect.TypeFor[anyJSON]():  {},
		reflect.TypeFor[binary]():   {Type: "string", ContentEncoding: "base64"},
	}
}

// answer returns a reference to the schema of an answer.
func (d *describer) answer(t reflect.Type) (object, error) {
	switch m, isMessage := reflect.TypeAssert[proto.Message](reflect.New(t)); {
	case isMessage:
		return d.message(m.ProtoReflect().Descriptor()), nil
	case t == reflect.TypeFor[claims]():
		d.schemas["Claims"] = object{"type": "object", "required": []string{"tasks"}, "properties": object{"tasks": object{"type": "array", "items": object{
			"allOf": []object{d.message((*kinesinv1.Claimed)(nil).ProtoReflect().Descriptor()), {
				"type": "object", "required": []string{"claim"},
				"properties": object{"claim": object{"type": "string", "description": "names this attempt in heartbeats and results"}},
			}},
		}}}}
		return object{"$ref": "#/components/schemas/Claims"}, nil
	}
	return d.ref(t, false)
}

// request returns the schema of a body.
func (d *describer) request(r *route) (object, error) {
	if m, isMessage := reflect.TypeAssert[proto.Message](reflect.New(r.request)); isMessage {
		return jsonform.RequestSchemaOf(m.ProtoReflect().Descriptor(), d.requested, r.without...), nil
	}
	return d.ref(r.request, true)
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

// ref returns a reference to the schema of a struct, which it adds to the document. An answer may have
// further fields in a newer server; a request may not.
func (d *describer) ref(t reflect.Type, isRequest bool) (object, error) {
	name, known := d.names[t]
	if !known {
		name = strings.TrimPrefix(strings.TrimSuffix(t.Name(), "View"), "HTTP")
		name = strings.ToUpper(name[:1]) + name[1:]
		d.names[t] = name
		types := own()
		// Structs inside are references too.
		for _, inside := range structsIn(t) {
			inner, err := d.ref(inside, isRequest)
			if err != nil {
				return nil, err
			}
			ref, _ := inner["$ref"].(string)
			types[inside] = &jsonschema.Schema{Ref: ref}
		}
		schema, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: types})
		if err != nil {
			return nil, err
		}
		if _, twice := d.schemas[name]; twice {
			return nil, fmt.Errorf("two types have the name %s", name)
		}
		tidied, err := tidy(schema)
		if err != nil {
			return nil, err
		}
		if !isRequest {
			delete(tidied, "additionalProperties")
		}
		d.schemas[name] = tidied
	}
	return object{"$ref": "#/components/schemas/" + name}, nil
}

// structsIn returns the types of structs that are in lists of a struct, or that its fields point to.
func structsIn(t reflect.Type) (found []reflect.Type) {
	for _, field := range reflect.VisibleFields(t) {
		inside := field.Type
		for inside.Kind() == reflect.Slice || inside.Kind() == reflect.Pointer {
			inside = inside.Elem()
		}
		if !field.Anonymous && inside.Kind() == reflect.Struct {
			found = append(found, inside)
		}
	}
	return found
}

// words are what some fields of requests may be. In answers there may be more in a newer server.
var words = map[string][]string{ //nolint:gochecknoglobals // a table
	"outcome": {"success", "retriable_failure", "fatal_failure", "snoozed", "released", "cancelled"},
}

// tidy returns a schema without what Go's types say and this API does not: null is never sent or taken.
// Lists have their bounds.
func tidy(schema *jsonschema.Schema) (object, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return nil, err //nolint:wrapcheck // its callers do
	}
	var o object
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err //nolint:wrapcheck // its callers do
	}
	withoutNull(o)
	properties, _ := o["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		most, isBounded := listsMax[name]
		switch {
		case words[name] != nil && o["additionalProperties"] == false:
			property["enum"] = words[name]
		case isBounded && property["type"] == "array":
			property["maxItems"] = most
		case isBounded && property["type"] == "object":
			property["maxProperties"] = most
		}
	}
	return o, nil
}

func withoutNull(o map[string]any) {
	if types, isList := o["type"].([]any); isList {
		types = slices.DeleteFunc(types, func(t any) bool { return t == "null" })
		switch len(types) {
		case 0: // beside a reference
			delete(o, "type")
		case 1:
			o["type"] = types[0]
		default:
			o["type"] = types
		}
	}
	for _, value := range o {
		switch inside := value.(type) {
		case map[string]any:
			withoutNull(inside)
		case []any:
			for _, one := range inside {
				if m, isObject := one.(map[string]any); isObject {
					withoutNull(m)
				}
			}
		}
	}
}
