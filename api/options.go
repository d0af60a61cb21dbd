package api

import (
	"context"
	"fmt"
	"net/http"
	"runtime/debug"

	"connectrpc.com/connect"
)

// Limits of the wire.
const (
	// MessageBytesMax bounds a Schedule request, and every answer.
	MessageBytesMax = 16 << 20
	// workerBytesMax bounds a message of a worker, such as ResultsMax results with the longest errors, and
	// what a backup has to name.
	workerBytesMax = 12 << 20
	// requestBytesMax bounds every other request, such as IDsMax ids of the longest form.
	requestBytesMax = 512 << 10
	// compressBytesMin is above the size of frequent messages, which are not worth compressing.
	compressBytesMin = 64 << 10
)

// Hooks are functions of a server. A nil hook is not called.
type Hooks struct {
	// Internal is called with each error that clients see as "internal", whose text they do not get.
	Internal func(ctx context.Context, procedure string, err error)
}

// HandlerOptions returns the options of every handler: the binary codec, the limits, and the translation of errors
// by ToWire. A panic in a handler becomes an internal error. jsonform.HandlerOption has the JSON codec.
func HandlerOptions(hooks Hooks) []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithCodec(protoCodec{requests: true}),
		boundedGzip(),
		connect.WithConditionalHandlerOptions(func(spec connect.Spec) []connect.HandlerOption {
			return []connect.HandlerOption{connect.WithReadMaxBytes(RequestBytesMax(spec.Procedure))}
		}),
		connect.WithCompressMinBytes(compressBytesMin),
		connect.WithInterceptors(translator{hooks}),
		connect.WithRecover(func(_ context.Context, _ connect.Spec, _ http.Header, value any) error {
			return fmt.Errorf("panic: %v\n%s", value, debug.Stack())
		}),
	}
}

// ClientOptions returns the options of every client: the codec, the limits, and no compression, which costs
// more than it saves inside a data centre.
func ClientOptions() []connect.ClientOption {
	return []connect.ClientOption{
		connect.WithCodec(protoCodec{}),
		connect.WithReadMaxBytes(MessageBytesMax),
		connect.WithAcceptCompression("gzip", nil, nil),
	}
}

func (h Hooks) internal(ctx context.Context, procedure string, err error) {
	if h.Internal != nil {
		h.Internal(ctx, procedure, err)
	}
}

// translator is the interceptor that calls ToWire on what handlers return.
type translator struct{ hooks Hooks }

// WrapUnary translates the error of a unary handler.
func (t translator) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		if err != nil {
			return nil, t.toWire(ctx, request.Spec().Procedure, err)
		}
		return response, nil
	}
}

// WrapStreamingClient does nothing.
func (translator) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler translates the error of a streaming handler.
func (t translator) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return t.toWire(ctx, conn.Spec().Procedure, next(ctx, conn))
	}
}

func (t translator) toWire(ctx context.Context, procedure string, err error) error {
	wire := ToWire(err)
	if connect.CodeOf(wire) == connect.CodeInternal && wire != nil {
		t.hooks.internal(ctx, procedure, err)
	}
	return wire
}
