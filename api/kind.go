package api

import (
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// KindOf returns what a field holds, as its option says.
func KindOf(field protoreflect.FieldDescriptor) kinesinv1.Kind {
	kind, _ := proto.GetExtension(field.Options(), kinesinv1.E_Kind).(kinesinv1.Kind)
	return kind
}

// ValuesOf returns the words that a field of a request may be, as its option says; none: any text.
func ValuesOf(field protoreflect.FieldDescriptor) []string {
	words, _ := proto.GetExtension(field.Options(), kinesinv1.E_Values).(string)
	return strings.Fields(words)
}
