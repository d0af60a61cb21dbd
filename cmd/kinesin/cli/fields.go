package cli

import (
	"fmt"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
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

// managedByFlag adds the flag of the declared set that a thing is of.
func managedByFlag(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "managed-by", "", "`NAME` of the declared set that it is of, which kinesin apply prunes")
}

// helpOf returns what the contract says of a field, for the flag that sets it.
func helpOf(name string) string { return jsonform.Comment(fieldOf(name)) }

// wordsOf returns the words that a field of the contract may be.
func wordsOf(name string) []string { return api.ValuesOf(fieldOf(name)) }
