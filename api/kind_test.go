package api_test

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Each number of 64 bits that may be a time says whether it is one, and each kind is of a field that can hold it. What people
// see as it is can be read.
func TestKindsOfFields(t *testing.T) {
	fits := map[kinesinv1.Kind][]protoreflect.Kind{
		kinesinv1.Kind_KIND_INSTANT:  {protoreflect.Int64Kind},
		kinesinv1.Kind_KIND_DURATION: {protoreflect.Int64Kind},
		kinesinv1.Kind_KIND_COUNT:    {protoreflect.Int64Kind},
		kinesinv1.Kind_KIND_HEX:      {protoreflect.BytesKind},
		kinesinv1.Kind_KIND_CLAIM:    {protoreflect.BytesKind},
		kinesinv1.Kind_KIND_PAYLOAD:  {protoreflect.BytesKind, protoreflect.StringKind},
		kinesinv1.Kind_KIND_SECRET:   {protoreflect.StringKind},
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("kinesin.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Messages().Len() {
			fields := file.Messages().Get(i).Fields()
			for k := range fields.Len() {
				field := fields.Get(k)
				kind := api.KindOf(field)
				isFit := kind == kinesinv1.Kind_KIND_UNSPECIFIED && field.Kind() != protoreflect.Int64Kind
				for _, of := range fits[kind] {
					isFit = isFit || of == field.Kind()
				}
				if !isFit {
					t.Errorf("%s of type %s is of the kind %s", field.FullName(), field.Kind(), kind)
				}
				if api.Says(field, kinesinv1.E_Shown) && (kind != kinesinv1.Kind_KIND_UNSPECIFIED || field.Kind() == protoreflect.BytesKind || field.Message() != nil || field.IsList()) {
					t.Errorf("%s is shown, and is neither a text nor a number as people read it", field.FullName())
				}
			}
		}
		return true
	})
}
