package tracing

import (
	"context"
	"crypto/sha256"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/task"
)

// The beginnings of work that no call waits for: crons and jobs. Their rows keep the span of the call that
// made them, to which the work has a link.

// Current returns the span of a sampled call, for a row to keep; empty if there is none.
func (t *Tracer) Current(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); t != nil && c.IsSampled() {
		return textOf(c)
	}
	return ""
}

// Fired makes the span of the moment at which an occurrence of a cron is put, and returns it for the task.
// The span begins a trace, of which the share says whether it is sampled; if not, Fired returns "". Its ids
// follow from the task, so that two servers that put the same occurrence make the same span.
func (t *Tracer) Fired(k *task.Task, lambda, set string) string {
	if t == nil {
		return ""
	}
	sum := sha256.Sum256(append([]byte("fired"), k.ID[:]...))
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID(sum[8:24]), SpanID: trace.SpanID(sum[:8])})
	ctx := context.WithValue(context.Background(), idsKey{}, own)
	_, span := t.tracer.Start(ctx, "kinesin.cron", append(linkTo(set), trace.WithTimestamp(k.Created.Time()), trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(append(attributesOf(k, 0, lambda), attribute.String("kinesin.cron", k.Occurrence.Cron))...))...)
	defer span.End(trace.WithTimestamp(k.Created.Time()))
	if !span.SpanContext().IsSampled() {
		return ""
	}
	return textOf(span.SpanContext())
}

// Step begins the span of one step of a job whose call was sampled, in a trace of its own with a link to that
// call. end ends the span.
func (t *Tracer) Step(ctx context.Context, job, action, made string) (_ context.Context, end func(tasks int, err error)) {
	if t == nil || !IsSampled(made) {
		return ctx, func(int, error) {}
	}
	sampled := trace.NewSpanContext(trace.SpanContextConfig{TraceFlags: trace.FlagsSampled})
	began, span := t.tracer.Start(context.WithValue(ctx, idsKey{}, sampled), "kinesin.job", append(linkTo(made), //nolint:spancheck // end ends it
		trace.WithAttributes(attribute.String("kinesin.job", job), attribute.String("kinesin.action", action)))...)
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(began)), func(tasks int, err error) { //nolint:spancheck // end ends it
		span.SetAttributes(attribute.Int("kinesin.tasks", tasks))
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// linkTo returns the options of a span that begins a trace, with a link to another if there is one.
func linkTo(traceparent string) []trace.SpanStartOption {
	options := []trace.SpanStartOption{trace.WithNewRoot()}
	if to := contextOf(traceparent); to.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: to}))
	}
	return options
}
