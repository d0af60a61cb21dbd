package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Lambda is a named callback with arguments of type T, shared by the code that
// schedules its tasks and the code that handles them. It is a value: declare it once.
type Lambda[T any] struct {
	name     string
	defaults []Option
	codec    Codec
}

// NewLambda declares a lambda. The options apply to every task that is scheduled through it, before the
// options of the call.
func NewLambda[T any](name string, defaults ...Option) Lambda[T] {
	return Lambda[T]{name: name, defaults: defaults, codec: defaultCodec[T]()}
}

// WithCodec returns the lambda with another encoding of its arguments.
func (l Lambda[T]) WithCodec(c Codec) Lambda[T] {
	l.codec = c
	return l
}

// Name returns the lambda's name.
func (l Lambda[T]) Name() string { return l.name }

// Item returns the item that Schedule would schedule.
func (l Lambda[T]) Item(args T, opts ...Option) (Item, error) {
	payload, err := l.codec.Marshal(args)
	if err != nil {
		return Item{}, fmt.Errorf("encode the arguments of a %s task: %w", l.name, err)
	}
	item := Item{Lambda: l.name, Payload: payload}
	for _, o := range l.defaults {
		o(&item)
	}
	for _, o := range opts {
		o(&item)
	}
	return item, nil
}

// Decode returns the arguments in the payload of one of the lambda's tasks.
func (l Lambda[T]) Decode(payload []byte) (T, error) {
	var args T
	if err := l.codec.Unmarshal(payload, &args); err != nil {
		return args, fmt.Errorf("decode the arguments of a %s task: %w", l.name, err)
	}
	return args, nil
}

// Scheduler accepts tasks. It is a Client, which calls a server, or a client of package sqsinbound, which
// sends tasks to the inbound queue.
type Scheduler interface {
	Schedule(ctx context.Context, item Item) (Result, error)
	ScheduleMany(ctx context.Context, items []Item) ([]Result, error)
}

var _ Scheduler = (*Client)(nil)

// Schedule schedules one task. When it returns without an error the task is durable.
func (l Lambda[T]) Schedule(ctx context.Context, s Scheduler, args T, opts ...Option) (ID, error) {
	item, err := l.Item(args, opts...)
	if err != nil {
		return "", err
	}
	r, err := s.Schedule(ctx, item)
	return r.ID, err
}

// Call is one of the tasks of Lambda.ScheduleMany.
type Call[T any] struct {
	Args    T
	Options []Option
}

// ScheduleMany schedules any number of tasks and returns a result for each, in order. The error is nil when
// all are durable; otherwise it wraps the first error.
func (l Lambda[T]) ScheduleMany(ctx context.Context, s Scheduler, calls []Call[T]) ([]Result, error) {
	items := make([]Item, len(calls))
	for i, call := range calls {
		item, err := l.Item(call.Args, call.Options...)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items[i] = item
	}
	return s.ScheduleMany(ctx, items)
}

// Defaults returns what the options of NewLambda set.
func (l Lambda[T]) Defaults() Item {
	item := Item{Lambda: l.name}
	for _, o := range l.defaults {
		o(&item)
	}
	return item
}

// Codec turns arguments into a payload and back.
type Codec interface {
	Marshal(v any) ([]byte, error)
	Unmarshal(data []byte, v any) error
}

// defaultCodec returns JSON, and for []byte a codec that copies the bytes.
func defaultCodec[T any]() Codec {
	if _, isBytes := any(*new(T)).([]byte); isBytes {
		return bytesCodec{}
	}
	return jsonCodec{}
}

type jsonCodec struct{}

func (jsonCodec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal leaves v as it is when there is no payload.
func (jsonCodec) Unmarshal(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	return withoutValues(json.Unmarshal(data, v))
}

// valueError is an error that does not show the value at which decoding failed, because the text of an error
// is stored and logged, and payloads are not to be.
type valueError struct {
	text  string
	cause error
}

func (e *valueError) Error() string { return e.text }
func (e *valueError) Unwrap() error { return e.cause }

// withoutValues returns an error of JSON decoding with the place of the value in place of the value.
func withoutValues(err error) error {
	if err == nil {
		return nil
	}
	if e, is := errors.AsType[*json.SyntaxError](err); is {
		if !strings.HasPrefix(e.Error(), "invalid character") {
			return err // which quotes nothing
		}
		return &valueError{fmt.Sprintf("no valid JSON at byte %d", e.Offset), err}
	}
	if e, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		kind, _, _ := strings.Cut(e.Value, " ") // "number 42"
		return &valueError{fmt.Sprintf("JSON %s at byte %d does not fit field %q of type %s", kind, e.Offset, e.Field, e.Type), err}
	}
	return hidden(err)
}

// hidden returns an error that shows only the type of its cause, whose text may quote a value.
func hidden(err error) error {
	return &valueError{fmt.Sprintf("%T (its text may hold a value)", err), err}
}

type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) {
	data, isBytes := v.([]byte)
	if !isBytes {
		return nil, fmt.Errorf("want []byte, have %T", v)
	}
	return data, nil
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	into, isBytes := v.(*[]byte)
	if !isBytes {
		return fmt.Errorf("want *[]byte, have %T", v)
	}
	*into = data
	return nil
}
