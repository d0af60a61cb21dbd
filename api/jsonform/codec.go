package jsonform

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
)

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
