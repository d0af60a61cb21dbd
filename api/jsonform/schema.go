package jsonform

import (
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/comments"
)

// Schema is a JSON schema, or a part of one.
type Schema = map[string]any

// WordsKey has the words that a text of an answer may be. It is no enum, because a newer server may have others.
const WordsKey = "x-extensible-enum"

// SchemaOf returns the schema of what Append makes of a type of message. inside returns that of a message inside.
func SchemaOf(d protoreflect.MessageDescriptor, inside func(protoreflect.MessageDescriptor) Schema) Schema {
	if tableOf(d).isClaim {
		return Schema{"type": "string", "pattern": claimPattern}
	}
	w := writer{properties: Schema{}, inside: inside}
	w.add(tableOf(d))
	return w.schema()
}

// RequestSchemaOf returns the schema of what Decode takes.
func RequestSchemaOf(d protoreflect.MessageDescriptor, inside func(protoreflect.MessageDescriptor) Schema, except ...string) Schema {
	if tableOf(d).isClaim {
		return SchemaOf(d, inside)
	}
	w := writer{properties: Schema{}, inside: inside, isRequest: true, except: except, isChange: api.MaskOf(d) != nil}
	w.add(tableOf(d))
	schema := w.schema()
	schema["additionalProperties"] = false
	return schema
}

// writer writes the schema of an object.
type writer struct {
	properties Schema
	required   []string
	inside     func(protoreflect.MessageDescriptor) Schema
	isRequest  bool
	isChange   bool
	except     []string
}

func (w *writer) schema() Schema {
	schema := Schema{"type": "object", "properties": w.properties}
	if len(w.required) > 0 {
		schema["required"] = w.required
	}
	return schema
}

func (w *writer) add(t *table) {
	for i := range t.fields {
		f := &t.fields[i]
		name := f.name
		if f.isInline {
			w.add(f.inside())
			continue
		}
		if w.isRequest && (f.isReadOnly || f.FieldDescriptor == t.mask || slices.Contains(w.except, name)) {
			continue
		}
		if !w.isRequest && f.always || w.isRequest && f.isRequired && !slices.Contains(w.except, "?"+name) {
			w.required = append(w.required, name)
		}
		var one Schema
		switch {
		case f.IsMap():
			values := field{FieldDescriptor: f.MapValue()}
			one = Schema{"type": "object", "additionalProperties": values.describe(w.inside)}
		case f.IsList():
			one = Schema{"type": "array", "items": f.describe(w.inside)}
		default:
			one = f.describe(w.inside)
		}
		if w.isRequest {
			f.bound(one)
		} else if words := api.ValuesOf(f.FieldDescriptor); len(words) > 0 {
			one[WordsKey] = words
		}
		if w.isChange && api.IsChangeable(f.FieldDescriptor) && f.kind != kinesinv1.Kind_KIND_PAYLOAD {
			one = f.orNull(one)
		}
		if text := f.text(); text != "" {
			one["description"] = text
		}
		w.properties[name] = one
		if f.kind == kinesinv1.Kind_KIND_PAYLOAD {
			w.properties[name+"_text"] = Schema{"type": "string", "description": name + ", if it is no JSON, but text in UTF-8"}
			w.properties[name+"_base64"] = Schema{"type": "string", "contentEncoding": "base64", "description": name + ", if it is other bytes"}
		}
	}
}

// bound adds to the schema of a field what is allowed in requests.
func (f *field) bound(schema Schema) {
	words := api.ValuesOf(f.FieldDescriptor)
	switch {
	case f.IsMap():
		schema["maxProperties"] = f.max
	case f.IsList():
		schema["maxItems"] = f.max
	case len(words) > 0:
		schema["enum"] = words
	case f.kind == kinesinv1.Kind_KIND_DURATION && !f.isSigned:
		schema["pattern"] = api.DurationPattern
	case f.isPositive:
		schema["minimum"] = 1
	}
}

// orNull returns the schema of a field of a change, which may be null, and is not the same as none otherwise.
func (f *field) orNull(schema Schema) Schema {
	if schema["type"] == nil { // a reference
		return Schema{"oneOf": []Schema{schema, {"type": "null"}}}
	}
	if !f.HasPresence() {
		switch schema["type"] {
		case "object":
			schema["minProperties"] = 1
		case "integer":
			schema["minimum"] = 1
		case "number":
			schema["exclusiveMinimum"] = 0
		}
	}
	schema["type"] = []any{schema["type"], "null"}
	return schema
}

// describe returns the schema of a value, or of an element of a list.
func (f *field) describe(inside func(protoreflect.MessageDescriptor) Schema) Schema {
	switch f.kind { //nolint:exhaustive // others are as their type
	case kinesinv1.Kind_KIND_INSTANT:
		return Schema{"type": "string", "format": "date-time", "examples": []string{"2027-01-31T09:00:00Z"}}
	case kinesinv1.Kind_KIND_DURATION:
		return Schema{"type": "string", "pattern": api.SignedDurationPattern, "examples": []string{"90s"}}
	case kinesinv1.Kind_KIND_HEX:
		return Schema{"type": "string", "pattern": "^[0-9a-fA-F-]*$"}
	case kinesinv1.Kind_KIND_CLAIM:
		return Schema{"type": "string", "pattern": claimPattern}
	case kinesinv1.Kind_KIND_PAYLOAD:
		return Schema{}
	}
	switch f.Kind() {
	case protoreflect.MessageKind:
		return inside(f.Message())
	case protoreflect.BoolKind:
		return Schema{"type": "boolean"}
	case protoreflect.BytesKind:
		return Schema{"type": "string", "contentEncoding": "base64url"}
	case protoreflect.DoubleKind:
		return Schema{"type": "number"}
	case protoreflect.StringKind:
		return Schema{"type": "string"}
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return Schema{"type": "integer"}
	default:
		return Schema{"type": "integer", "minimum": 0}
	}
}

// unset is how the contract says what it means that a field is not set.
var unset = regexp.MustCompile(`\b(0|empty|absent|unset): `)

// Comment returns what the contract says of a field, where one that is not set is not there.
func Comment(f protoreflect.FieldDescriptor) string {
	return strings.ReplaceAll(unset.ReplaceAllString(comments.Of[string(f.FullName())], "not set: "), `"`, "")
}

// text returns what the contract says of a field.
func (f *field) text() string {
	if f.always {
		return strings.ReplaceAll(comments.Of[string(f.FullName())], `"`, "")
	}
	return Comment(f.FieldDescriptor)
}
