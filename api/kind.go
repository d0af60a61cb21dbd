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

// Shown returns the name and the text of each field of m that is set and that the option shown is true of, in the order of the
// contract: what people see of a thing without more words.
func Shown(m proto.Message) (all [][2]string) {
	r := m.ProtoReflect()
	for i := range r.Descriptor().Fields().Len() {
		if f := r.Descriptor().Fields().Get(i); Says(f, kinesinv1.E_Shown) && r.Has(f) {
			all = append(all, [2]string{strings.ReplaceAll(string(f.Name()), "_", " "), r.Get(f).String()})
		}
	}
	return all
}

// ValuesOf returns the words that a field of a request may be, as its option says; none: any text.
func ValuesOf(field protoreflect.FieldDescriptor) []string {
	words, _ := proto.GetExtension(field.Options(), kinesinv1.E_Values).(string)
	return strings.Fields(words)
}
