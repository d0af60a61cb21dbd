// Package jsonform is the one JSON of the API: of plain HTTP, connect, the results and files of the command line, audit
// records and registrations. A message becomes an object with its fields by their names in the contract. Instants are texts by RFC 3339, and durations texts such as 90s;
// bytes of users are JSON where they are JSON; a refusal is a problem as HTTP has it. Numbers, bools and lists of messages
// that only answers have are always there; everything else only if it is set.
package jsonform

import (
	"slices"
	"strconv"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// table is how a type of message is in JSON. It is made when the type is first used.
type table struct {
	fields    []field           // in the order of the contract
	byName    map[string]member // what a request may have, by name
	isProblem bool
	isClaim   bool                         // it has nothing but a claim, and is one in JSON
	mask      protoreflect.FieldDescriptor // of a change: names the fields to change; JSON has the members instead
}

// member is what a name in a request stands for.
type member struct {
	*field

	form string // of a payload, one of payloadForms
}

// payloadForms are behind the name of a payload: JSON, another text, and other bytes.
var payloadForms = []string{"", "_text", "_base64"}

// field is how a field of a message is in JSON.
type field struct {
	protoreflect.FieldDescriptor

	name     string // in JSON
	key      string // its name, in quotes, with a colon
	kind     kinesinv1.Kind
	always   bool          // it is there also if it is not set
	inside   func() *table // of a message; nil: it is none
	isInline bool          // its fields are in the object around it
	max      int           // how many elements it may have in a request; 0: it is no list or map of one

	isReadOnly bool // no request has it
	isRequired bool // a request has it
	isPositive bool // not 0 in a request
	isSigned   bool // of a duration that may be below 0
}

// tables has the *table of each type of message by its descriptor.
var tables sync.Map //nolint:gochecknoglobals // a cache of what the contract says

func tableOf(d protoreflect.MessageDescriptor) *table {
	if known, found := tables.Load(d); found {
		return known.(*table) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	t := &table{isProblem: d.FullName() == "kinesin.v1.Problem", mask: api.MaskOf(d), fields: make([]field, 0, d.Fields().Len()), byName: map[string]member{}}
	isAnswer := !requested()[d.FullName()]
	for i := range d.Fields().Len() {
		f := field{FieldDescriptor: d.Fields().Get(i), kind: api.KindOf(d.Fields().Get(i)), max: api.ListMax(d.Fields().Get(i))}
		if f.name = string(f.Name()); f.kind == kinesinv1.Kind_KIND_CLAIM {
			f.name, t.isClaim = "claim", d.Fields().Len() == 2
		}
		f.key = strconv.Quote(f.name) + ":"
		f.always = isAnswer && !f.HasPresence() && (isNumber(f) || f.kind == kinesinv1.Kind_KIND_CLAIM || api.Says(f, kinesinv1.E_Always))
		if isOfClaim := f.Name() == attemptName && api.KindOf(d.Fields().Get(0)) == kinesinv1.Kind_KIND_CLAIM; isOfClaim && !isAnswer {
			continue
		}
		f.isInline, f.isReadOnly, f.isRequired = api.Says(f, kinesinv1.E_Inline), api.Says(f, kinesinv1.E_ReadOnly), api.Says(f, kinesinv1.E_Required)
		f.isPositive, f.isSigned = api.Says(f, kinesinv1.E_Positive), api.Says(f, kinesinv1.E_Signed)
		if inside := f.Message(); inside != nil && !f.IsMap() {
			f.inside = sync.OnceValue(func() *table { return tableOf(inside) })
		}
		t.fields = append(t.fields, f)
		if f.isInline || f.isReadOnly || f.FieldDescriptor == t.mask {
			continue
		}
		forms := payloadForms[:1]
		if f.kind == kinesinv1.Kind_KIND_PAYLOAD {
			forms = payloadForms
		}
		for _, form := range forms {
			t.byName[f.name+form] = member{&t.fields[len(t.fields)-1], form}
		}
	}
	known, _ := tables.LoadOrStore(d, t)
	return known.(*table) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// isNumber reports whether a field is a number, a bool, or a list, or says how many there are of what.
func isNumber(f field) bool {
	switch {
	case f.IsMap():
		return f.MapValue().Kind() != protoreflect.StringKind
	case f.IsList():
		return true
	case f.kind == kinesinv1.Kind_KIND_UNSPECIFIED || f.kind == kinesinv1.Kind_KIND_COUNT:
		return !slices.Contains([]protoreflect.Kind{protoreflect.StringKind, protoreflect.BytesKind, protoreflect.EnumKind}, f.Kind())
	}
	return false
}

// requested returns the messages that requests have, without what the server alone sets in them.
var requested = sync.OnceValue(func() map[protoreflect.FullName]bool { //nolint:gochecknoglobals // what the contract says
	found := map[protoreflect.FullName]bool{}
	var add func(d protoreflect.MessageDescriptor)
	add = func(d protoreflect.MessageDescriptor) {
		if found[d.FullName()] {
			return
		}
		found[d.FullName()] = true
		for i := range d.Fields().Len() {
			if f := d.Fields().Get(i); f.Message() != nil && !f.IsMap() && !api.Says(f, kinesinv1.E_ReadOnly) {
				add(f.Message())
			}
		}
	}
	for _, service := range api.Services() {
		for i := range service.Methods().Len() {
			add(service.Methods().Get(i).Input())
		}
	}
	return found
})
