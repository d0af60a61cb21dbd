package jsonform

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/comments"
)

// Schema is a JSON schema, or a part of one.
type Schema = map[string]any

// SchemaOf returns the schema of what Append makes of a type of message. inside returns that of a message inside.
func SchemaOf(d protoreflect.MessageDescriptor, inside func(protoreflect.MessageDescriptor) Schema) Schema {
	properties, required := Schema{}, []string{}
	tableOf(d).describe(properties, &required, inside)
	schema := Schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		schema["required"] = required
	}
	return schema
}

func (t *table) describe(properties Schema, required *[]string, inside func(protoreflect.MessageDescriptor) Schema) {
	for i := range t.fields {
		f := &t.fields[i]
		name := string(f.Name())
		if f.isInline {
			f.inside().describe(properties, required, inside)
			continue
		}
		if f.always {
			*required = append(*required, name)
		}
		one := f.describe(inside)
		switch {
		case f.IsMap():
			values := field{FieldDescriptor: f.MapValue()}
			one = Schema{"type": "object", "additionalProperties": values.describe(inside)}
		case f.IsList():
			one = Schema{"type": "array", "items": one}
		}
		if text := f.text(); text != "" {
			one["description"] = text
		}
		properties[name] = one
		if f.kind == kinesinv1.Kind_KIND_PAYLOAD {
			properties[name+"_text"] = Schema{"type": "string", "description": name + ", if it is no JSON, but text in UTF-8"}
			properties[name+"_base64"] = Schema{"type": "string", "contentEncoding": "base64", "description": name + ", if it is other bytes"}
		}
	}
}

// describe returns the schema of a value, or of an element of a list.
func (f *field) describe(inside func(protoreflect.MessageDescriptor) Schema) Schema {
	switch f.kind {
	case kinesinv1.Kind_KIND_INSTANT:
		return Schema{"type": "string", "format": "date-time", "examples": []string{"2027-01-31T09:00:00Z"}}
	case kinesinv1.Kind_KIND_DURATION:
		return Schema{"type": "string", "pattern": "^-?" + api.DurationPattern[1:], "examples": []string{"90s"}}
	case kinesinv1.Kind_KIND_HEX:
		return Schema{"type": "string", "pattern": "^[0-9a-fA-F-]*$"}
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

// text returns what the contract says of a field.
func (f *field) text() string {
	text := comments.Of[string(f.FullName())]
	if !f.always {
		text = unset.ReplaceAllString(text, "not set: ")
	}
	return strings.ReplaceAll(text, `"`, "")
}
