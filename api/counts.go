package api

import (
	"fmt"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Limits of the lists in requests that others need, too: those of the contract, of the option max. The roles check
// them too.
const (
	ItemsMax    = 10_000  // tasks of one Schedule
	IDsMax      = 1000    // ids of one Get, Cancel or Wait
	GroupsMax   = 64      // slot groups of a worker
	LambdasMax  = 1000    // of a slot group
	ResultsMax  = 10_000  // of one SetResults, or of a lease that is given up
	HeldMax     = 151_072 // attempts that a worker has: two for each slot and each prefetched task
	RejectedMax = 100     // names of one call
	NominalMax  = 5       // nominal times to come of a cron, which no request has to have
)

// ListMax returns how many elements a list or a map in a request may have, as its option says; 0 for a field
// that is none. It is checked before a request is decoded, because an element of two bytes on the wire takes a
// hundred times as much in memory.
func ListMax(field protoreflect.FieldDescriptor) int {
	most, _ := proto.GetExtension(field.Options(), kinesinv1.E_Max).(uint32)
	return int(most)
}

// lists are the lists and the texts in a message and in the messages inside it.
type lists struct {
	fields []listField // by field number, up to the last field that is checked
}

type listField struct {
	name     string
	repeated bool
	max      int    // 0: it is no list
	text     bool   // its elements are texts
	inside   *lists // nil: nothing in its elements is checked
}

// knownLists has the *lists of each type of message that was decoded.
var knownLists sync.Map //nolint:gochecknoglobals // a cache of what the contract says

func listsOf(d protoreflect.MessageDescriptor) *lists {
	if known, found := knownLists.Load(d.FullName()); found {
		return known.(*lists) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	l := &lists{}
	for i := range d.Fields().Len() {
		field := d.Fields().Get(i)
		f := listField{
			name: string(field.Name()), repeated: field.IsList(), max: ListMax(field),
			text: field.Kind() == protoreflect.StringKind,
		}
		switch {
		case field.Message() == nil:
		case field.Message() == d: // what follows a task is of the same kind
			f.inside = l
		default:
			f.inside = listsOf(field.Message())
			if len(f.inside.fields) == 0 {
				f.inside = nil
			}
		}
		if f.max > 0 || f.text || f.inside != nil {
			for len(l.fields) <= int(field.Number()) {
				l.fields = append(l.fields, listField{})
			}
			l.fields[field.Number()] = f
		}
	}
	knownLists.Store(d.FullName(), l)
	return l
}

// checkProto refuses an encoded message with a list that is too long, or with a text that is no UTF-8, which
// generated code would take and package proto would refuse to encode again, in an answer. It leaves malformed
// input to the decoder.
func (l *lists) checkProto(data []byte) error {
	if len(l.fields) == 0 {
		return nil
	}
	var counts []int // by field number
	for whole := data; len(data) > 0; {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return nil
		}
		var f listField
		if int(number) < len(l.fields) {
			f = l.fields[number]
		}
		if f.max > 0 {
			if counts == nil {
				counts = make([]int, len(l.fields))
			}
			if counts[number]++; counts[number] > f.max {
				return tooMany(f.name, f.max)
			}
		}
		value := protowire.ConsumeFieldValue(number, kind, data[n:])
		if value < 0 {
			return nil
		}
		if (f.text || f.inside != nil) && kind == protowire.BytesType {
			inside, _ := protowire.ConsumeBytes(data[n:])
			var err error
			if f.inside != nil {
				err = f.inside.checkProto(inside)
			} else if at := invalidByte(inside); at >= 0 {
				err = &textError{char: inside[at]}
			}
			if text, is := err.(*textError); is { //nolint:errorlint // it is never wrapped
				text.isIn(&f, int(number), whole[:len(whole)-len(data)])
			}
			if err != nil {
				return err
			}
		}
		data = data[n+value:]
	}
	return nil
}

// textError refuses a text that is no UTF-8.
type textError struct {
	path string // of the text in the message
	char byte
}

// Error names the text, and says what is wrong with it.
func (e *textError) Error() string {
	return fmt.Sprintf(`%s: byte \x%02x is no UTF-8; %s`, e.path, e.char, wantText)
}

// isIn puts a field before the path, and of a list the index of the element that comes behind so much of the
// message.
func (e *textError) isIn(f *listField, number int, before []byte) {
	name := f.name
	if f.repeated {
		index := 0
		for len(before) > 0 {
			n, _, length := protowire.ConsumeField(before)
			if before = before[length:]; int(n) == number {
				index++
			}
		}
		name = fmt.Sprintf("%s[%d]", name, index)
	}
	const pathBytesMax = 200
	switch {
	case e.path == "":
		e.path = name
	case len(e.path) < pathBytesMax:
		e.path = name + "." + e.path
	}
}

func tooMany(field string, most int) error {
	return fmt.Errorf("%s: more than %d elements", field, most)
}
