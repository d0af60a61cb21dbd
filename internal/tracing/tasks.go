package tracing

import (
	"context"
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
