package cli

import (
	"fmt"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
)

// fieldOf returns a field of the contract by its name in it, such as Cron.gap.
func fieldOf(name string) protoreflect.FieldDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("kinesin.v1." + name))
	field, is := d.(protoreflect.FieldDescriptor)
	if !is {
		panic(fmt.Sprintf("no field %s: %v", name, err))
	}
	return field
}

// wordsOf returns the words that a field of the contract may be.
func wordsOf(name string) []string { return api.ValuesOf(fieldOf(name)) }
