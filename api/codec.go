package api

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// vtMessage is a message with generated code of its own for the wire format, which needs no reflection: one of
// a call that comes for each task.
type vtMessage interface {
	SizeVT() int
	MarshalToSizedBufferVT(data []byte) (int, error)
	UnmarshalVT(data []byte) error
}

// protoCodec is the binary protobuf codec of connect, by generated code where
// the message has it. It is safe for concurrent use.
type protoCodec struct {
	requests bool // what it decodes is checked first: others send it
}

// Name returns the name of the codec that it replaces.
func (protoCodec) Name() string { return "proto" }

// Marshal encodes a protobuf message.
func (c protoCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend encodes a protobuf message behind dst, in place if there is room.
func (protoCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	switch m := message.(type) {
	case vtMessage:
		used, size := len(dst), m.SizeVT()
		dst = slices.Grow(dst, size)[:used+size]
		_, err := m.MarshalToSizedBufferVT(dst[used:])
		return dst, err
	case proto.Message:
		dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
		if err != nil { // a client must not try again
			return nil, Errorf(kinesinv1.Reason_REASON_INVALID, "%s: %v", badText(m), err)
		}
		return dst, nil
	}
	return nil, notProto(message)
}

// MarshalStable encodes a protobuf message the same way each time, in which generated code does not write maps.
func (protoCodec) MarshalStable(message any) ([]byte, error) {
	if m, isProto := message.(proto.Message); isProto {
		return proto.MarshalOptions{Deterministic: true}.Marshal(m)
	}
	return nil, notProto(message)
}

// IsBinary tells connect that the encoding is not text.
func (protoCodec) IsBinary() bool { return true }

// Unmarshal decodes into an empty protobuf message. It refuses a request with a list that is too long, or with a
// text that is no UTF-8, before it decodes it.
func (c protoCodec) Unmarshal(data []byte, message any) error {
	if m, isProto := message.(proto.Message); isProto && c.requests {
		if err := listsOf(m.ProtoReflect().Descriptor()).checkProto(data); err != nil {
			return err
		}
	}
	switch m := message.(type) {
	case vtMessage:
		return m.UnmarshalVT(data)
	case proto.Message:
		return proto.Unmarshal(data, m)
	}
	return notProto(message)
}

// badText returns the path of the first text in a message that is no UTF-8.
func badText(m proto.Message) (path string) {
	_ = protorange.Range(m.ProtoReflect(), func(at protopath.Values) error {
		last := at.Index(-1)
		text, _ := last.Value.Interface().(string)
		if last.Step.Kind() == protopath.MapIndexStep {
			text += last.Step.MapIndex().String()
		}
		if utf8.ValidString(text) {
			return nil
		}
		path = strings.TrimPrefix(at.Path[1:].String(), ".")
		return protorange.Terminate
	})
	return path
}

func notProto(message any) error {
	return fmt.Errorf("%T is not a protobuf message", message)
}
