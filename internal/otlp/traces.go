package otlp

import (
	"context"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime/debug"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/internal/tracing"
)

const (
	tracesPath = "v1/traces"
	// queueSpansMax bounds the spans that wait for the collector, batchSpansMax those of a request. Spans
	// that do not fit are left out.
	queueSpansMax, batchSpansMax = 8192, 512
)

// Traces sends spans.
type Traces struct {
	provider *sdktrace.TracerProvider
	share    float64
}

// NewTraces returns what sends the spans of a share of the calls to the collector whose base URL is endpoint;
// an empty endpoint leaves it to OpenTelemetry's own environment variables, and so does a negative share with
// the sampler. failed is told of each request that is given up, and may be nil.
func NewTraces(ctx context.Context, endpoint string, share float64, failed func(error)) (*Traces, error) {
	options := []otlptracehttp.Option{otlptracehttp.WithTimeout(sendMax), otlptracehttp.WithCompression(otlptracehttp.GzipCompression)}
	if endpoint != "" {
		full, err := url.JoinPath(endpoint, tracesPath)
		if err != nil {
			return nil, err
		}
		options = append(options, otlptracehttp.WithEndpointURL(full))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, err
	}
	return newTraces(ctx, share, sdktrace.WithBatcher(observedSpans{exporter, failed}, sdktrace.WithMaxQueueSize(queueSpansMax), sdktrace.WithMaxExportBatchSize(batchSpansMax),
		sdktrace.WithBatchTimeout(sendEvery), sdktrace.WithExportTimeout(sendMax)))
}

// NewTracesTo returns what hands spans to an exporter as soon as they end, for tests.
func NewTracesTo(ctx context.Context, exporter sdktrace.SpanExporter, share float64) (*Traces, error) {
	return newTraces(ctx, share, sdktrace.WithSyncer(exporter))
}

func newTraces(ctx context.Context, share float64, to sdktrace.TracerProviderOption) (*Traces, error) {
	of, err := resource.New(ctx, resource.WithAttributes(service()...), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	provide := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(of), sdktrace.WithIDGenerator(ids{}), to,
	}
	if share >= 0 {
		provide = append(provide, sdktrace.WithSampler(forced{sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))}))
	}
	return &Traces{sdktrace.NewTracerProvider(provide...), share}, nil
}

// Tracer returns the tracer of the spans.
func (t *Traces) Tracer() *tracing.Tracer { return tracing.New(t.provider, t.share) }

// Close sends what is queued, until ctx ends.
func (t *Traces) Close(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// observedSpans is an exporter that tells of failures, and returns none, because the process's log says it.
type observedSpans struct {
	sdktrace.SpanExporter

	failed func(error)
}

// ExportSpans implements sdktrace.SpanExporter.
func (o observedSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := o.SpanExporter.ExportSpans(ctx, spans); err != nil && o.failed != nil {
		o.failed(err)
	}
	return nil
}

// forced samples the spans of tasks that are traced, and leaves others to the next sampler.
type forced struct{ sdktrace.Sampler }

// ShouldSample implements sdktrace.Sampler.
func (f forced) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if tracing.Forced(p.ParentContext) {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return f.Sampler.ShouldSample(p)
}

// ids gives spans the ids that others know already, as the handler of an attempt does, and others random
// ones.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if c, is := tracing.Given(ctx); is {
		return c.TraceID(), c.SpanID()
	}
	var id trace.TraceID
	for !id.IsValid() {
		for n := range id {
			id[n] = byte(rand.Uint32()) //nolint:gosec // no secret
		}
	}
	return id, i.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if c, is := tracing.Given(ctx); is {
		return c.SpanID()
	}
	var id trace.SpanID
	for !id.IsValid() {
		for n := range id {
			id[n] = byte(rand.Uint32()) //nolint:gosec // no secret
		}
	}
	return id
}

// service returns what the process is called in its records, unless OTEL_SERVICE_NAME or
// OTEL_RESOURCE_ATTRIBUTES says otherwise.
func service() []attribute.KeyValue {
	of := []attribute.KeyValue{attribute.String("service.name", "kinesin"), attribute.Int("process.pid", os.Getpid())}
	if info, found := debug.ReadBuildInfo(); found {
		of = append(of, attribute.String("service.version", info.Main.Version))
	}
	return of
}
