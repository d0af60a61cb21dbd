package sdk

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// w3c is how trace contexts go to servers and to handlers, whatever propagator the program has for others.
var w3c propagation.TraceContext

// withTraces returns a client that sends the span of a call's context with it, as the headers traceparent and
// tracestate. So one trace goes from the caller to the handler. Without a span it does nothing.
func withTraces(c *http.Client) *http.Client {
	with := *c
	with.Transport = traced{c}
	return &with
}

// traced is the transport of a client, with the headers of traces.
type traced struct{ of *http.Client }

// RoundTrip implements http.RoundTripper.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(r.Context()).IsValid() {
		r = r.Clone(r.Context())
		w3c.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	}
	if t.of.Transport == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.of.Transport.RoundTrip(r)
}

// CloseIdleConnections lets a client close those of its transport.
func (t traced) CloseIdleConnections() { t.of.CloseIdleConnections() }

// below returns a context for the handler of a task, in which spans begin below that of its attempt.
func below(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}
