package api

import (
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// jsonCodec is the JSON codec of servers. It refuses unknown fields, which connect's own ignores: people
// write JSON by hand, and a misspelt delay must not mean now. Binary messages come from programs and follow
// protobuf's rule: unknown fields are ignored. It is safe for concurrent use.
type jsonCodec struct{ name string }

// jsonCodecs replaces both names of connect's codec.
func jsonCodecs() connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithCodec(jsonCodec{"json"}),
		connect.WithCodec(jsonCodec{"json; charset=utf-8"}),
	)
}

// Name returns the name of the codec that it replaces.
func (c jsonCodec) Name() string { return c.name }

// Marshal encodes a protobuf message.
func (c jsonCodec) Marshal(message any) ([]byte, error) { return c.MarshalAppend(nil, message) }

// MarshalAppend encodes a protobuf message behind dst.
func (jsonCodec) MarshalAppend(dst []byte, message any) ([]byte, error) {
	m, isProto := message.(proto.Message)
	if !isProto {
		return nil, notProto(message)
	}
	return protojson.MarshalOptions{}.MarshalAppend(dst, m)
}

// Unmarshal decodes into an empty protobuf message. It refuses a list that is too long before it decodes it.
func (jsonCodec) Unmarshal(data []byte, message any) error {
	m, isProto := message.(proto.Message)
	switch {
	case !isProto:
		return notProto(message)
	case len(data) == 0:
		return errNoBody
	}
	if err := listsOf(m.ProtoReflect().Descriptor()).checkJSON(data); err != nil {
		return err
	}
	if err := CheckJSONText(data); err != nil {
		return err
	}
	strict := protojson.Unmarshal(data, m)
	if strict == nil {
		return nil
	}
	proto.Reset(m)
	if (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, m) == nil { // so the error is an unknown field
		const depthMax = 3
		return fmt.Errorf("%s; allowed here: %s", Visible(strict.Error()), fieldNames(m.ProtoReflect().Descriptor(), depthMax))
	}
	return errors.New(Visible(strict.Error()))
}

var errNoBody = errors.New("the body is empty: want a JSON object such as {}")

// fieldNames lists the JSON names of the fields of a message, with those of nested messages in brackets.
func fieldNames(m protoreflect.MessageDescriptor, depthMax int) string {
	names := make([]string, m.Fields().Len())
	for i := range names {
		f := m.Fields().Get(i)
		names[i] = f.JSONName()
		if inner := f.Message(); inner != nil && depthMax > 1 {
			names[i] += " (" + fieldNames(inner, depthMax-1) + ")"
		}
	}
	return strings.Join(names, ", ")
}
