package tracing

import (
	"context"
	"crypto/sha256"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/task"
)

// Buffered makes the span of a task's time in the inbound buffer, below that of Schedule.
func (t *Tracer) Buffered(k *task.Task, lambda string, now task.Instant) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), scheduledBy(k))
	_, span := t.tracer.Start(ctx, "kinesin.buffer", trace.WithTimestamp(k.Created.Time()), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attributesOf(k, 0, lambda)...))
	span.End(trace.WithTimestamp(max(k.Created, now).Time()))
}

// Dispatched makes the span of a task's first dispatch, from its due time on.
func (t *Tracer) Dispatched(k *task.Task, lambda string, now task.Instant) {
	if t.Traces(k) {
		t.child(k, max(1, k.Attempt), "kinesin.dispatch", min(k.Due, now), now, lambda)
	}
}

// Claimed makes the span of a task's wait in its queue.
func (t *Tracer) Claimed(k *task.Task, lambda string) {
	if t.Traces(k) && !k.Enqueued.IsZero() {
		t.child(k, k.Attempt, "kinesin.queue", min(k.Enqueued, k.ClaimedAt), k.ClaimedAt, lambda)
	}
}

// Attempted makes the span of an attempt that has ended.
func (t *Tracer) Attempted(k *task.Task, lambda, outcome string, failed bool, now task.Instant) {
	if !t.Traces(k) {
		return
	}
	began := k.ClaimedAt
	if began.IsZero() || began > now {
		began = now
	}
	attributes := []attribute.KeyValue{attribute.String("kinesin.outcome", outcome), attribute.String("kinesin.worker", k.Worker)}
	if k.Attempt == 1 && !k.FirstStarted.IsZero() {
		attributes = append(attributes, attribute.Float64("kinesin.lateness_seconds", max(0, k.FirstStarted.Sub(k.Due)).Seconds()))
	}
	span := t.root(k, k.Attempt, "kinesin.attempt", began, lambda, attributes...)
	if !k.Started.IsZero() && k.Started >= began {
		span.AddEvent("started", trace.WithTimestamp(k.Started.Time()))
	}
	if failed {
		span.SetStatus(codes.Error, outcome)
	}
	span.End(trace.WithTimestamp(now.Time()))
}

// Delivered makes the span of a delivery to a lambda's queue, from its due time on.
func (t *Tracer) Delivered(k *task.Task, lambda string, now task.Instant) {
	if t.Traces(k) {
		t.root(k, k.Attempt, "kinesin.deliver", min(k.Due, now), lambda).End(trace.WithTimestamp(now.Time()))
	}
}

// root begins the span of an attempt: below that of Schedule, or with a link to it.
func (t *Tracer) root(k *task.Task, attempt uint32, name string, began task.Instant, lambda string, more ...attribute.KeyValue) trace.Span {
	parent, own := scheduledBy(k), attemptOf(k, attempt)
	ctx := context.WithValue(context.Background(), idsKey{}, own)
	options := []trace.SpanStartOption{
		trace.WithTimestamp(began.Time()), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(append(attributesOf(k, attempt, lambda), more...)...),
	}
	if isLinked(k) {
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{
			SpanContext: parent, Attributes: []attribute.KeyValue{attribute.Float64("kinesin.waited_seconds", began.Sub(k.Created).Seconds())},
		}))
	} else {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, span := t.tracer.Start(ctx, name, options...) //nolint:spancheck // the caller ends it
	return span                                      //nolint:spancheck // the caller ends it
}

// child makes a span below that of an attempt.
func (t *Tracer) child(k *task.Task, attempt uint32, name string, began, ended task.Instant, lambda string) {
	ctx := trace.ContextWithRemoteSpanContext(context.Background(), attemptOf(k, attempt))
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(began.Time()), trace.WithAttributes(attributesOf(k, attempt, lambda)...))
	span.End(trace.WithTimestamp(max(began, ended).Time()))
}

func attributesOf(k *task.Task, attempt uint32, lambda string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("kinesin.lambda", lambda), attribute.String("kinesin.task_id", k.ID.String()),
		attribute.Int("kinesin.attempt", int(attempt)), attribute.String("kinesin.due", k.Due.Time().UTC().Format(time.RFC3339Nano)),
	}
}

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
