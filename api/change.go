package api

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// A request that changes something has a mask, its field "fields": the names of the fields to change. A field in the
// mask that is set gets that value, and one that is not set gets its default; what is not in the mask stays as it is,
// and may not be set. In JSON the members that are there are the mask.

// MaskOf returns the mask of a type of message; nil if the message changes nothing.
func MaskOf(d protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if f := d.Fields().ByName("fields"); f != nil && f.IsList() && f.Kind() == protoreflect.StringKind {
		return f
	}
	return nil
}

// IsChangeable reports whether the mask of a change may have a field of it, or of the message that is inline in it.
func IsChangeable(f protoreflect.FieldDescriptor) bool {
	return MaskOf(f.ContainingMessage()) != f && !Says(f, kinesinv1.E_Inline) && !Says(f, kinesinv1.E_Fixed) && !Says(f, kinesinv1.E_ReadOnly)
}

// Says reports whether a field has an option that is true or false.
func Says(f protoreflect.FieldDescriptor, option protoreflect.ExtensionType) bool {
	is, _ := proto.GetExtension(f.Options(), option).(bool)
	return is
}

// changed returns the message with what a change changes: the change, or the message that is inline in it.
func changed(change protoreflect.Message) protoreflect.Message {
	fields := change.Descriptor().Fields()
	for i := range fields.Len() {
		if Says(fields.Get(i), kinesinv1.E_Inline) {
			return change.Get(fields.Get(i)).Message()
		}
	}
	return change
}

// namesOf returns the names in the mask of a change.
func namesOf(change protoreflect.Message) (names []string) {
	list := change.Get(MaskOf(change.Descriptor())).List()
	for i := range list.Len() {
		names = append(names, list.Get(i).String())
	}
	return names
}

// Changeable returns the names that the mask of a change may have, in order.
func Changeable(change proto.Message) (names []string) {
	fields := changed(change.ProtoReflect()).Descriptor().Fields()
	for i := range fields.Len() {
		if f := fields.Get(i); IsChangeable(f) {
			names = append(names, string(f.Name()))
		}
	}
	slices.Sort(names)
	return names
}

// SetMask sets the mask of a change to the fields that are set, and to those of reset, which go back to their
// defaults.
func SetMask(change proto.Message, reset ...string) error {
	m := change.ProtoReflect()
	of := changed(m)
	names := slices.Clone(reset)
	for _, name := range Changeable(change) {
		switch isSet := of.Has(of.Descriptor().Fields().ByName(protoreflect.Name(name))); {
		case isSet && slices.Contains(reset, name):
			return Errorf(kinesinv1.Reason_REASON_INVALID, "%s is to be reset and has a value: want one of them", name)
		case isSet:
			names = append(names, name)
		}
	}
	list := m.NewField(MaskOf(m.Descriptor())).List()
	for _, name := range names {
		list.Append(protoreflect.ValueOfString(name))
	}
	m.Set(MaskOf(m.Descriptor()), protoreflect.ValueOfList(list))
	return CheckMask(change)
}

// CheckMask refuses a change whose mask has names that no mask may have, or that sets fields that are not in the mask.
func CheckMask(change proto.Message) error {
	m := change.ProtoReflect()
	of, names := changed(m), namesOf(m)
	allowed := Changeable(change)
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			return Errorf(kinesinv1.Reason_REASON_INVALID, "%q is no field that can be changed or reset: want any of %s", Visible(name), strings.Join(allowed, ", "))
		}
	}
	for _, name := range allowed {
		if of.Has(of.Descriptor().Fields().ByName(protoreflect.Name(name))) && !slices.Contains(names, name) {
			return Errorf(kinesinv1.Reason_REASON_INVALID, "%s is set, and not in fields, which names what is to be changed: name it there, or leave it out", name)
		}
	}
	return nil
}

// Change changes a message of the type that a checked change sets: the fields in the mask become those of the change.
func Change(have, change proto.Message) {
	from, to := changed(change.ProtoReflect()), have.ProtoReflect()
	for _, name := range namesOf(change.ProtoReflect()) {
		if f := from.Descriptor().Fields().ByName(protoreflect.Name(name)); from.Has(f) {
			to.Set(f, from.Get(f))
		} else {
			to.Clear(f)
		}
	}
}
