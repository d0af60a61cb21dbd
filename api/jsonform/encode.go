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
	"unicode/utf8"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// instantForm is a time in UTC with microseconds.
const instantForm = "2006-01-02T15:04:05.000000Z"

// Append appends a message to dst as a JSON object, without white space.
func Append(dst []byte, m proto.Message) []byte {
	r := m.ProtoReflect()
	return tableOf(r.Descriptor()).append(dst, r)
}

// AppendRecord appends a message as Append does, without payloads and secrets: for what is kept of a change.
func AppendRecord(dst []byte, m proto.Message) []byte {
	open := proto.Clone(m)
	hide(open.ProtoReflect())
	return Append(dst, open)
}

// hide clears what no record has.
func hide(m protoreflect.Message) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch kind := api.KindOf(d); {
		case kind == kinesinv1.Kind_KIND_PAYLOAD || kind == kinesinv1.Kind_KIND_SECRET:
			m.Clear(d)
		case d.Message() == nil || d.IsMap():
		case d.IsList():
			for i := range v.List().Len() {
				hide(v.List().Get(i).Message())
			}
		default:
			hide(v.Message())
		}
		return true
	})
}

func (t *table) append(dst []byte, m protoreflect.Message) []byte {
	if t.isProblem {
		problem, _ := m.Interface().(*kinesinv1.Problem)
		return AppendValue(dst, api.HTTPProblemOf(problem))
	}
	if t.isClaim {
		return appendClaim(dst, m)
	}
	dst = t.members(append(dst, '{'), m)
	if t.mask != nil {
		dst = appendResets(dst, m, m.Get(t.mask).List())
	}
	return closed(dst, '}')
}

// closed ends a list or an object, whose last element has a comma behind it.
func closed(dst []byte, with byte) []byte {
	if last := len(dst) - 1; dst[last] == ',' {
		dst[last] = with
		return dst
	}
	return append(dst, with)
}

// members appends the members of an object, each with a comma behind it.
func (t *table) members(dst []byte, m protoreflect.Message) []byte {
	for i := range t.fields {
		f := &t.fields[i]
		if !f.always && !m.Has(f.FieldDescriptor) || f.FieldDescriptor == t.mask {
			continue
		}
		v := m.Get(f.FieldDescriptor)
		switch {
		case f.isInline:
			dst = f.inside().members(dst, v.Message())
			continue
		case f.kind == kinesinv1.Kind_KIND_PAYLOAD:
			dst = f.payload(dst, v)
			continue
		case f.kind == kinesinv1.Kind_KIND_CLAIM:
			dst = appendClaim(append(dst, f.key...), m)
		case f.IsMap():
			dst = f.entries(append(append(dst, f.key...), '{'), v.Map())
		case f.IsList():
			dst = append(append(dst, f.key...), '[')
			for i := range v.List().Len() {
				dst = append(f.value(dst, v.List().Get(i)), ',')
			}
			dst = closed(dst, ']')
		default:
			dst = f.value(append(dst, f.key...), v)
		}
		dst = append(dst, ',')
	}
	return dst
}

// appendResets appends null for each field that is in the mask of a change and not set, with a comma behind each.
func appendResets(dst []byte, m protoreflect.Message, mask protoreflect.List) []byte {
	o := objectOf(m, "")
	for i := range mask.Len() {
		f, of, known := o.member(mask.Get(i).String())
		switch {
		case !known || of.Has(f.FieldDescriptor):
		case f.kind == kinesinv1.Kind_KIND_PAYLOAD: // whose null is a payload
			dst = f.payload(dst, of.Get(f.FieldDescriptor))
		default:
			dst = append(append(dst, f.key...), "null,"...)
		}
	}
	return dst
}

// value appends the value of a field, or of an element of a list.
func (f *field) value(dst []byte, v protoreflect.Value) []byte {
	switch f.kind { //nolint:exhaustive // others are as their type
	case kinesinv1.Kind_KIND_INSTANT:
		return AppendInstant(dst, v.Int())
	case kinesinv1.Kind_KIND_DURATION:
		return append(api.AppendDuration(append(dst, '"'), v.Int()), '"')
	case kinesinv1.Kind_KIND_HEX:
		return append(hex.AppendEncode(append(dst, '"'), v.Bytes()), '"')
	}
	if f.inside != nil {
		return f.inside().append(dst, v.Message())
	}
	return appendScalar(dst, f.FieldDescriptor, v)
}

func appendScalar(dst []byte, d protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch d.Kind() {
	case protoreflect.StringKind:
		return appendText(dst, v.String())
	case protoreflect.BytesKind:
		return append(base64.RawURLEncoding.AppendEncode(append(dst, '"'), v.Bytes()), '"')
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool())
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return strconv.AppendInt(dst, v.Int(), 10)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(dst, v.Uint(), 10)
	case protoreflect.DoubleKind:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return append(dst, "null"...)
		}
		return AppendValue(dst, v.Float())
	default:
		return append(dst, "null"...) // the contract has no others, as a test sees
	}
}

// entries appends a map, in the order of its keys.
func (f *field) entries(dst []byte, m protoreflect.Map) []byte {
	keys := make([]protoreflect.MapKey, 0, m.Len())
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key)
		return true
	})
	slices.SortFunc(keys, func(x, y protoreflect.MapKey) int { return cmp.Compare(x.String(), y.String()) })
	for _, key := range keys {
		dst = append(appendText(dst, key.String()), ':')
		dst = append(appendScalar(dst, f.MapValue(), m.Get(key)), ',')
	}
	return closed(dst, '}')
}

// payload appends bytes of a user in the form in which they are easiest to read.
func (f *field) payload(dst []byte, v protoreflect.Value) []byte {
	var data []byte
	if f.Kind() == protoreflect.StringKind {
		data = []byte(v.String())
	} else {
		data = v.Bytes()
	}
	start := len(dst)
	whole := bytes.NewBuffer(append(dst, f.key...))
	if utf8.Valid(data) && json.Compact(whole, data) == nil {
		return append(whole.Bytes(), ',')
	}
	dst = whole.Bytes()[:start]
	dst = append(dst, `"`+string(f.Name())...)
	if utf8.Valid(data) {
		return append(appendText(append(dst, `_text":`...), string(data)), ',')
	}
	dst = base64.StdEncoding.AppendEncode(append(dst, `_base64":"`...), data)
	return append(dst, `",`...)
}

// appendText appends a text in quotes.
func appendText(dst []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return AppendValue(dst, text)
		}
	}
	return append(append(append(dst, '"'), text...), '"')
}

// AppendInstant appends microseconds since 1970 as a text.
func AppendInstant(dst []byte, micros int64) []byte {
	return append(time.UnixMicro(micros).UTC().AppendFormat(append(dst, '"'), instantForm), '"')
}

// AppendValue appends a value as package json encodes it.
func AppendValue(dst []byte, value any) []byte {
	whole := bytes.NewBuffer(dst)
	encoder := json.NewEncoder(whole)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // a text, a number or a struct of these
	return bytes.TrimSuffix(whole.Bytes(), []byte("\n"))
}

// A claim names an attempt of a task, which is all that a worker needs of it: the task in hexadecimal digits, a dash, and
// the number of the attempt. The messages that have one have task as their first field, and attempt, which answers also
// have by itself.
const (
	attemptName  = "attempt"
	claimPattern = "^[0-9a-f]{32}-[0-9]+$"
)

func attemptOf(m protoreflect.Message) protoreflect.FieldDescriptor {
	return m.Descriptor().Fields().ByName(attemptName)
}

func appendClaim(dst []byte, m protoreflect.Message) []byte {
	dst = hex.AppendEncode(append(dst, '"'), m.Get(m.Descriptor().Fields().Get(0)).Bytes())
	return append(strconv.AppendUint(append(dst, '-'), m.Get(attemptOf(m)).Uint(), 10), '"')
}

// setClaim reads a claim into a message.
func setClaim(m protoreflect.Message, raw []byte) error {
	text, err := textOf(raw, "a claim")
	if err != nil {
		return err
	}
	digits, number, _ := strings.Cut(text, "-")
	task, err := hex.DecodeString(digits)
	n, numberErr := strconv.ParseUint(number, 10, 32)
	if err != nil || numberErr != nil || len(task) != 16 {
		return fmt.Errorf("%s is no claim: want one that /v1/work/claim returned", Shown(raw))
	}
	m.Set(m.Descriptor().Fields().Get(0), protoreflect.ValueOfBytes(task))
	m.Set(attemptOf(m), protoreflect.ValueOfUint32(uint32(n)))
	return nil
}

// HandlerOption returns the option that makes handlers of connect speak this JSON instead of protobuf's.
func HandlerOption() connect.HandlerOption {
	return connect.WithHandlerOptions(connect.WithCodec(codec{"json"}), connect.WithCodec(codec{"json; charset=utf-8"}))
}

// codec is the JSON codec of servers. It is safe for concurrent use.
type codec struct{ name string }

// Name returns the name of the codec of connect that it replaces.
func (c codec) Name() string { return c.name }

// Marshal encodes a message.
func (c codec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend encodes a message behind dst.
func (codec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	m, err := messageOf(message)
	if err != nil {
		return nil, err
	}
	return Append(dst, m), nil
}

// Unmarshal decodes into an empty message.
func (codec) Unmarshal(data []byte, message any) error {
	m, err := messageOf(message)
	if err != nil {
		return err
	}
	if len(data) == 0 {
		return errors.New("the body is empty: want a JSON object such as {}")
	}
	_, err = Decode(data, m)
	return err
}

func messageOf(message any) (proto.Message, error) {
	m, is := message.(proto.Message)
	if !is {
		return nil, fmt.Errorf("%T is not a protobuf message", message)
	}
	return m, nil
}
