package jsonform

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Decode reads a JSON object into an empty message, without the fields of except, and returns the names that the object
// has. Decode is strict, because people write requests by hand, and a misspelt delay must not mean now: unknown names are
// refused, names that come twice, required ones that are missing (but not a name that except has behind a question mark),
// null but in a change, values of another type, and what is no text. The members of a change are its mask: null is for the
// default of a field, and a value that is the same as none is refused. A list is bounded while it is decoded. An error says
// where it is and what is allowed there. That of an element with a field malformed is in this field,
// and refuses nothing else.
func Decode(data []byte, m proto.Message, except ...string) (given []string, err error) {
	return DecodeAs("the body", data, m, except...)
}

// DecodeAs is Decode of what errors call where, such as "the line".
func DecodeAs(where string, data []byte, m proto.Message, except ...string) (given []string, err error) {
	o := objectOf(m.ProtoReflect(), where)
	o.except = except
	s, err := whole(where, data)
	if err == nil {
		err = o.decode(s)
	}
	return o.given, visible(err)
}

// DecodeList is DecodeAs of a list, or of one element alone, into the list of a message that has a name.
func DecodeList(where string, data []byte, m proto.Message, name protoreflect.Name) error {
	s, err := whole(where, data)
	if err != nil {
		return visible(err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("[")) {
		s.data = slices.Concat([]byte("["), data, []byte("]"))
	}
	o := objectOf(m.ProtoReflect(), where)
	list, of, _ := o.member(string(name))
	return visible(o.list(list.field, of, s))
}

// whole returns a scanner of the one JSON value that data is.
func whole(where string, data []byte) (*scanner, error) {
	if !json.Valid(data) {
		err := json.Unmarshal(data, new(json.RawMessage)) // which says where
		if syntax, is := errors.AsType[*json.SyntaxError](err); is {
			return nil, fmt.Errorf("%s is not JSON, at byte %d: %w", where, syntax.Offset, err)
		}
		return nil, fmt.Errorf("%s is not JSON: %w", where, err)
	}
	return &scanner{data: data}, api.CheckJSONText(data)
}

// visible returns an error whose text shows what would not be seen in it.
func visible(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(api.Visible(err.Error()))
}

// Names returns the names that Decode takes for a message, in order.
func Names(m proto.Message, except ...string) []string {
	o := objectOf(m.ProtoReflect(), "")
	o.except = except
	return o.allowed()
}

// object is a JSON object that is read.
type object struct {
	parts  []part // the message, and the messages whose fields are in the same object
	where  string
	except []string
	depth  int // of a task behind others
	given  []string
	mask   protoreflect.List // of a change; nil: it is none
}

// part is a message whose fields are in an object.
type part struct {
	protoreflect.Message

	table *table
}

func objectOf(m protoreflect.Message, where string) object {
	o := object{where: where}
	o.add(m)
	return o
}

func (o *object) add(m protoreflect.Message) {
	t := tableOf(m.Descriptor())
	o.parts = append(o.parts, part{m, t})
	for i := range t.fields {
		if t.fields[i].isInline {
			o.add(m.Mutable(t.fields[i].FieldDescriptor).Message())
		}
	}
}

// member returns what a name stands for, and the message that has its field; false: the object may not have it.
func (o *object) member(name string) (found member, of protoreflect.Message, known bool) {
	for _, part := range o.parts {
		if found, known = part.table.byName[name]; known && !slices.Contains(o.except, string(found.Name())) {
			return found, part.Message, true
		}
	}
	return found, nil, false
}

// allowed returns the names that the object may have, in order.
func (o *object) allowed() (names []string) {
	for _, part := range o.parts {
		for name, m := range part.table.byName {
			if !slices.Contains(o.except, string(m.Name())) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// missing returns the names that the object needs and does not have, in order.
func (o *object) missing() (names []string) {
	for _, part := range o.parts {
		fields := part.table.fields
		for i := range fields {
			name := fields[i].name
			if fields[i].isRequired && !fields[i].isReadOnly && !slices.Contains(o.given, name) &&
				!slices.Contains(o.except, name) && !slices.Contains(o.except, "?"+name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// decode reads the value that is next.
func (o *object) decode(s *scanner) error {
	first := o.parts[0]
	if first.table.isClaim {
		return setClaim(first.Message, s.value())
	}
	if first.table.mask != nil {
		o.mask = first.Mutable(first.table.mask).List()
	}
	err := s.members(o.where, func(name string) error {
		m, of, known := o.member(name)
		switch {
		case !known:
			return fmt.Errorf("unknown field %q in %s; allowed here: %s", name, o.where, cmp.Or(strings.Join(o.allowed(), ", "), "none"))
		case slices.Contains(o.given, name):
			return fmt.Errorf("field %q is twice in %s", name, o.where)
		}
		o.given = append(o.given, name)
		if o.mask != nil && api.IsChangeable(m.FieldDescriptor) {
			return o.change(m, of, s)
		}
		if m.kind == kinesinv1.Kind_KIND_PAYLOAD {
			return o.payload(m, of, s.value())
		}
		if m.kind == kinesinv1.Kind_KIND_CLAIM {
			return setClaim(of, s.value())
		}
		return o.set(m.field, of, s)
	})
	if err != nil {
		return err
	}
	if o.mask != nil {
		sortTexts(o.mask)
	}
	if slices.Contains(o.given, "due") && slices.Contains(o.given, "delay") {
		return errors.New("want due or delay, not both")
	}
	if missing := o.missing(); len(missing) > 0 {
		return fmt.Errorf("%s has no field %q, which it needs", o.where, missing[0])
	}
	return nil
}

// sortTexts puts texts in order, so that a mask does not depend on the order of members.
func sortTexts(list protoreflect.List) {
	texts := make([]string, list.Len())
	for i := range texts {
		texts[i] = list.Get(i).String()
	}
	slices.Sort(texts)
	for i, text := range texts {
		list.Set(i, protoreflect.ValueOfString(text))
	}
}

// change reads the value that is next into a field of a change, and puts the name of the field into the mask.
func (o *object) change(m member, of protoreflect.Message, s *scanner) error {
	o.mask.Append(protoreflect.ValueOfString(string(m.Name())))
	switch {
	case m.kind == kinesinv1.Kind_KIND_PAYLOAD:
		return o.payload(m, of, s.value())
	case s.isNull():
		s.value()
		return nil
	}
	from := s.at
	if err := o.set(m.field, of, s); err != nil {
		return err
	}
	if !of.Has(m.FieldDescriptor) && m.Kind() != protoreflect.BoolKind {
		return fmt.Errorf("%s: %s is not %s; null resets it", m.Name(), Shown(bytes.TrimSpace(s.data[from:s.at])), m.wantSet())
	}
	return nil
}

// payload reads bytes of a user, of which an object may have one form.
func (o *object) payload(m member, of protoreflect.Message, raw []byte) error {
	name := string(m.Name())
	forms := 0
	for _, form := range payloadForms {
		if slices.Contains(o.given, name+form) {
			forms++
		}
	}
	if forms > 1 {
		return fmt.Errorf("the same in two forms: want one of %s, %s_text and %s_base64", name, name, name)
	}
	var data []byte
	switch m.form {
	case "":
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return fmt.Errorf("%s: not JSON: %w", name, err)
		}
		data = compact.Bytes()
	case "_text":
		text, err := textOf(raw, "a text")
		if err != nil {
			return fmt.Errorf("%s_text: %w", name, err)
		}
		data = []byte(text)
	default:
		text, err := textOf(raw, "text in base64")
		if err == nil {
			if data, err = base64.StdEncoding.DecodeString(text); err != nil {
				err = fmt.Errorf("not base64 (the standard alphabet, padded with =): %w", err)
			}
		}
		if err != nil {
			return fmt.Errorf("%s_base64: %w", name, err)
		}
	}
	of.Set(m.FieldDescriptor, protoreflect.ValueOfBytes(data))
	return nil
}

// set reads the value that is next into a field of a message.
func (o *object) set(f *field, of protoreflect.Message, s *scanner) error {
	name := string(f.Name())
	switch {
	case s.isNull():
		return fmt.Errorf("%s: null is no value; leave the field out", name)
	case f.IsMap():
		return f.readEntries(s, of.Mutable(f.FieldDescriptor).Map())
	case f.IsList():
		return o.list(f, of, s)
	case f.inside != nil:
		inside := objectOf(of.Mutable(f.FieldDescriptor).Message(), name)
		return inside.decode(s)
	}
	v, err := f.read(s.value())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	of.Set(f.FieldDescriptor, v)
	return nil
}

// placed is an error with its place in what follows a task, such as then[0].else[1].
type placed struct {
	where string
	error
}

func (p *placed) Error() string { return fmt.Sprintf("%s: %v", task.ShortPlace(p.where), p.error) }

// within says where an error is, of which the inner part may be known.
func within(where string, err error) error {
	if inner, is := err.(*placed); is { //nolint:errorlint // nothing wraps one
		return &placed{where + "." + inner.where, inner.error}
	}
	return &placed{where, err}
}

// malformedMax bounds the elements of a list that are refused alone, since an error takes more memory than what it is about.
const malformedMax = 100

// list reads the elements of a field of a message.
func (o *object) list(f *field, of protoreflect.Message, s *scanner) error {
	name := string(f.Name())
	list, depth, what := of.Mutable(f.FieldDescriptor).List(), o.depth, "the element"
	if f.Message() == (&kinesinv1.ScheduleItem{}).ProtoReflect().Descriptor() {
		what = "the task"
	}
	if follows := f.Message() == of.Descriptor(); follows {
		depth++
	}
	malformed, refused := protoreflect.FieldDescriptor(nil), 0
	if f.Message() != nil {
		malformed = f.Message().Fields().ByName("malformed")
	}
	isList, err := s.elements(func(n int) error {
		place := func(err error) error { return within(fmt.Sprintf("%s[%d]", name, n), err) }
		switch {
		case n == f.max:
			return fmt.Errorf("%s: more than %d elements", name, f.max)
		case depth >= task.ChainDepthMax:
			return place(fmt.Errorf("it is task %d of a row: at most %d tasks may follow each other, the first one included", depth+1, task.ChainDepthMax))
		case f.inside != nil:
			element, from := list.NewElement(), s.at
			inside := objectOf(element.Message(), what)
			inside.depth = depth
			if err := inside.decode(s); err != nil {
				if refused++; malformed == nil || refused > malformedMax {
					return place(err)
				}
				s.at = from
				s.value() // goes behind it
				element.Message().Set(malformed, protoreflect.ValueOfString(visible(place(err)).Error()))
			}
			list.Append(element)
			return nil
		case s.isNull():
			return place(errors.New("null is no value"))
		}
		v, err := f.read(s.value())
		if err != nil {
			return place(err)
		}
		list.Append(v)
		return nil
	})
	if !isList {
		return fmt.Errorf("%s: %s is no list", name, Shown(s.value()))
	}
	return err
}

// readEntries reads the entries of a map.
func (f *field) readEntries(s *scanner, into protoreflect.Map) error {
	name, values := string(f.Name()), field{FieldDescriptor: f.MapValue()}
	return s.members(name, func(member string) error {
		key := protoreflect.ValueOfString(member).MapKey()
		switch {
		case into.Has(key):
			return fmt.Errorf("%s: %q is there twice", name, member)
		case into.Len() == f.max:
			return fmt.Errorf("%s: more than %d", name, f.max)
		}
		v, err := values.read(s.value())
		if err != nil {
			return fmt.Errorf("%s: the value of %q is not %s", name, member, values.want())
		}
		into.Set(key, v)
		return nil
	})
}

const (
	momentWant = "want a time by RFC 3339, such as 2027-01-31T09:00:00Z or 2027-01-31T09:00:00.25+01:00"
	// momentMin is 2001-01-01T00:00:00Z.
	momentMin = 978_307_200_000_000
)

// read reads a value of a field, or of an element of a list.
func (f *field) read(raw []byte) (v protoreflect.Value, err error) {
	switch f.kind { //nolint:exhaustive // others are as their type
	case kinesinv1.Kind_KIND_INSTANT:
		at, err := ReadInstant(raw)
		return protoreflect.ValueOfInt64(at), err
	case kinesinv1.Kind_KIND_DURATION:
		d, err := f.readDuration(raw)
		return protoreflect.ValueOfInt64(d), err
	case kinesinv1.Kind_KIND_HEX:
		text, err := textOf(raw, "a text of hexadecimal digits")
		if err != nil {
			return v, err
		}
		data, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil {
			err = fmt.Errorf("%s is no text of hexadecimal digits", Shown(raw))
		}
		return protoreflect.ValueOfBytes(data), err
	}
	return f.readScalar(raw)
}

func (f *field) readScalar(raw []byte) (v protoreflect.Value, err error) {
	text := string(raw)
	switch f.Kind() {
	case protoreflect.StringKind:
		text, err = textOf(raw, "")
		v = protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		var data []byte
		if text, err = textOf(raw, ""); err == nil {
			data, err = base64.RawURLEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("+", "-", "/", "_").Replace(text), "="))
		}
		v = protoreflect.ValueOfBytes(data)
	case protoreflect.BoolKind:
		if err = errWant; text == "true" || text == "false" {
			v, err = protoreflect.ValueOfBool(text == "true"), nil
		}
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, bits[f.Kind()])
		if v = protoreflect.ValueOfInt64(n); f.Kind() == protoreflect.Int32Kind {
			v = protoreflect.ValueOfInt32(int32(n))
		}
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		var n uint64
		if n, err = strconv.ParseUint(text, 10, bits[f.Kind()]); n == 0 && f.isPositive {
			err = errWant
		}
		if v = protoreflect.ValueOfUint64(n); f.Kind() == protoreflect.Uint32Kind {
			v = protoreflect.ValueOfUint32(uint32(n))
		}
	case protoreflect.DoubleKind:
		var n float64
		if n, err = strconv.ParseFloat(text, 64); n == 0 {
			n = 0 // not -0, which protobuf takes for a value
		}
		v = protoreflect.ValueOfFloat64(n)
	default:
		err = errWant
	}
	if err != nil {
		return v, fmt.Errorf("%s is not %s", Shown(raw), f.want())
	}
	return v, nil
}

var (
	errWant = errors.New("another value is wanted")
	bits    = map[protoreflect.Kind]int{protoreflect.Int32Kind: 32, protoreflect.Int64Kind: 64, protoreflect.Uint32Kind: 32, protoreflect.Uint64Kind: 64} //nolint:gochecknoglobals // a table
)

// wantSet says what is allowed for a field that is not the same as none.
func (f *field) wantSet() string {
	switch {
	case f.IsMap():
		return "an object with members"
	case f.kind == kinesinv1.Kind_KIND_DURATION:
		return "a duration above 0"
	case f.Kind() == protoreflect.StringKind:
		return "a text of a character or more"
	case f.Kind() == protoreflect.DoubleKind:
		return "a number above 0"
	}
	return "a whole number from 1"
}

// want says what is allowed for a field.
func (f *field) want() string {
	switch f.Kind() { //nolint:exhaustive // others are whole numbers from 0
	case protoreflect.BoolKind:
		return "true or false"
	case protoreflect.StringKind:
		return "a text"
	case protoreflect.BytesKind:
		return "a text in base64"
	case protoreflect.DoubleKind:
		return "a number"
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return "a whole number"
	}
	switch {
	case f.isPositive:
		return "a whole number from 1"
	case f.Kind() == protoreflect.Uint32Kind:
		return fmt.Sprintf("a whole number from 0 to %d", uint32(math.MaxUint32))
	}
	return "a whole number that is not negative"
}

// SetText sets the field of that name to what a text says, which is a part of a path or behind it.
func SetText(m proto.Message, name, text string) error {
	o := objectOf(m.ProtoReflect(), "")
	f, of, known := o.member(name)
	if !known || f.IsList() || f.IsMap() || f.inside != nil {
		return fmt.Errorf("%s has no field %q that a text sets", m.ProtoReflect().Descriptor().FullName(), name)
	}
	if f.Kind() == protoreflect.StringKind {
		of.Set(f.FieldDescriptor, protoreflect.ValueOfString(text))
		return nil
	}
	raw := AppendValue(nil, text)
	if isNumber(*f.field) {
		raw = []byte(text)
	}
	v, err := f.read(raw)
	if err != nil && isNumber(*f.field) {
		err = fmt.Errorf("%q is not %s", text, f.want())
	}
	if err == nil {
		of.Set(f.FieldDescriptor, v)
	}
	return err
}

// ReadInstant reads a JSON text as ParseInstant does.
func ReadInstant(raw []byte) (micros int64, err error) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return 0, fmt.Errorf("%s is no time: %s", Shown(raw), momentWant)
	}
	return ParseInstant(text)
}

// ParseInstant reads a time by RFC 3339 in microseconds, rounded up.
func ParseInstant(text string) (micros int64, err error) {
	parsed, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no time: %s", text, momentWant)
	case parsed.UnixMicro() < momentMin:
		return 0, fmt.Errorf("%q is before 2001, which is a mistake of unit: %s", text, momentWant)
	}
	return parsed.Add(time.Microsecond - 1).UnixMicro(), nil // rounded up: never early
}

func (f *field) readDuration(raw []byte) (micros int64, err error) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return 0, fmt.Errorf("%s is no duration: %s", Shown(raw), api.DurationWant)
	}
	parse := api.ParseDuration
	if f.isSigned {
		parse = api.ParseSignedDuration
	}
	d, err := parse(text)
	switch {
	case err != nil:
		return 0, err //nolint:wrapcheck // its caller says where
	case d.Microseconds() == 0 && f.isPositive:
		return 0, fmt.Errorf("%s is too short: leave it out for that of the lambda", Shown(raw))
	}
	return d.Microseconds(), nil
}

// textOf returns a text of JSON.
func textOf(raw []byte, want string) (text string, err error) {
	text, is := unquoted(raw)
	if !is {
		return "", fmt.Errorf("%s is not %s", Shown(raw), want)
	}
	return text, nil
}
