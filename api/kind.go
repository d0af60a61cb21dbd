package api

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// KindOf returns what a field holds, as its option says.
func KindOf(field protoreflect.FieldDescriptor) kinesinv1.Kind {
	kind, _ := proto.GetExtension(field.Options(), kinesinv1.E_Kind).(kinesinv1.Kind)
	return kind
}
