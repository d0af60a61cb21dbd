// Package tracing makes the spans of OpenTelemetry of a task: Schedule, dispatch, the wait in the queue, each
// attempt, and a delivery. It keeps no state between them. A span is made when what it shows is over, from
// what the task's row says, and its id follows from the task and the attempt. So any server may make any of
// them, and an attempt's id is known to the handler before the span exists. It knows the API of OpenTelemetry
// and no exporter.
//
// A task is traced if its traceparent says that its trace is sampled.
package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/task"
)

// LinkAfter is how long a task may wait until its attempts have traces of their own, with a link to that of
// Schedule: collectors close a trace after minutes.
const LinkAfter = 15 * time.Minute

// Tracer makes spans. A nil one makes none. It is safe for concurrent use.
type Tracer struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
	share    float64
}

// New returns a tracer of a provider that takes ids from Given and samples by Forced. share is the share of
// the calls that begin a trace; negative: the provider decides it.
func New(p trace.TracerProvider, share float64) *Tracer {
	return &Tracer{provider: p, tracer: p.Tracer("github.com/kinesin-io/kinesin"), share: share}
}

// Interceptors returns the interceptor of the RPC server, for all unary calls but those of workers, which
// come every few seconds.
func (t *Tracer) Interceptors() ([]connect.HandlerOption, error) {
	if t == nil {
		return nil, nil
	}
	i, err := t.Interceptor()
	return []connect.HandlerOption{connect.WithInterceptors(i)}, err
}

// Interceptor returns that of Interceptors.
func (t *Tracer) Interceptor() (connect.Interceptor, error) {
	i, err := otelconnect.NewInterceptor(otelconnect.WithTracerProvider(t.provider), otelconnect.WithPropagator(propagation.TraceContext{}),
		otelconnect.WithTrustRemote(), otelconnect.WithoutMetrics(), otelconnect.WithoutServerPeerAttributes(), otelconnect.WithoutTraceEvents(),
		otelconnect.WithFilter(func(_ context.Context, s connect.Spec) bool {
			return s.StreamType == connect.StreamTypeUnary && !isOfWorkers(s.Procedure)
		}))
	return drawing{i, t}, err
}

// drawing decides by the share which calls that bring no trace begin one, before anything is done for a span:
// of a hundred calls ninety-nine have none.
type drawing struct {
	connect.Interceptor

	tracer *Tracer
}

// WrapUnary implements connect.Interceptor.
func (d drawing) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	traced := d.Interceptor.WrapUnary(next)
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if ctx, begins := d.tracer.draw(ctx, request.Header()); begins {
			return traced(ctx, request)
		}
		return next(ctx, request)
	}
}

// forcedContext has a span sampled, and gives it no ids.
var forcedContext = trace.NewSpanContext(trace.SpanContextConfig{TraceFlags: trace.FlagsSampled}) //nolint:gochecknoglobals // a constant

// draw reports whether a call may have a span: it brings a trace, which says itself whether it is sampled, or
// begins one, which is sampled then.
func (t *Tracer) draw(ctx context.Context, of http.Header) (context.Context, bool) {
	if t.share < 0 || len(of["Traceparent"]) > 0 {
		return ctx, true
	}
	if rand.Float64() >= t.share { //nolint:gosec // no secret
		return ctx, false
	}
	return context.WithValue(ctx, idsKey{}, forcedContext), true
}

func isOfWorkers(procedure string) bool {
	const service = "/" + kinesinv1connect.WorkerServiceName + "/"
	return len(procedure) > len(service) && procedure[:len(service)] == service
}

// Plain returns a handler that traces calls in plain HTTP. The span's name has no path, which may hold keys.
func (t *Tracer) Plain(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, begins := t.draw(r.Context(), r.Header)
		if !begins {
			next.ServeHTTP(w, r)
			return
		}
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, r.Method+" /v1/", trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Scheduling begins the span of a Schedule call. If it is sampled the tasks without a traceparent get its
// own. end ends the span.
func (t *Tracer) Scheduling(ctx context.Context, items []*kinesinv1.ScheduleItem) (_ context.Context, end func()) {
	if t == nil {
		return ctx, func() {}
	}
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, func() {} // the call is not, so this is not either
	}
	ctx, span := t.tracer.Start(ctx, "kinesin.schedule", trace.WithSpanKind(trace.SpanKindProducer))
	span.SetAttributes(attribute.Int("kinesin.tasks", len(items)))
	if len(items) > 0 {
		span.SetAttributes(attribute.String("kinesin.lambda", items[0].GetLambda()))
	}
	own := textOf(span.SpanContext())
	for _, item := range items {
		if item.GetTraceparent() == "" {
			item.Traceparent = own
		}
	}
	return ctx, func() { span.End() }
}

// Op makes the span of a call of a kind to a service that ended now, if it is part of a traced call.
func (t *Tracer) Op(ctx context.Context, service, kind string, took time.Duration, err error) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return
	}
	now := time.Now() // the time of spans is that of the world
	_, span := t.tracer.Start(ctx, service+" "+kind, trace.WithTimestamp(now.Add(-took)), trace.WithSpanKind(trace.SpanKindClient))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End(trace.WithTimestamp(now))
}

// Traces reports whether a task is traced.
func (t *Tracer) Traces(k *task.Task) bool { return t != nil && IsSampled(k.Traceparent) }

// IsSampled reports whether a traceparent, which CheckTraceparent took, says that its trace is sampled.
func IsSampled(traceparent string) bool {
	const flags = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01") - 1
	if len(traceparent) <= flags {
		return false
	}
	switch traceparent[flags] {
	case '1', '3', '5', '7', '9', 'b', 'd', 'f':
		return true
	}
	return false
}

// TraceID returns the trace id of a traced task, for exemplars.
func TraceID(k *task.Task) string { return k.Traceparent[3 : 3+32] }

// TraceIDOf returns the id of a context's trace; empty if it is not sampled.
func TraceIDOf(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Traceparent returns what the handler of a task's newest attempt gets: the span of its attempt if the task
// is traced, or else what the task was scheduled with.
func (t *Tracer) Traceparent(k *task.Task) string {
	if !t.Traces(k) {
		return k.Traceparent
	}
	return textOf(attemptOf(k, k.Attempt))
}

// textOf returns a span context in the form of W3C.
func textOf(c trace.SpanContext) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), c), carrier)
	return carrier["traceparent"]
}

// scheduledBy returns the span context that a task was scheduled with.
func scheduledBy(k *task.Task) trace.SpanContext { return contextOf(k.Traceparent) }

func contextOf(traceparent string) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent})
	return trace.SpanContextFromContext(ctx)
}

// isLinked reports whether an attempt has a trace of its own.
func isLinked(k *task.Task) bool {
	at := k.Due
	for _, known := range []task.Instant{k.ClaimedAt, k.Enqueued} {
		if !known.IsZero() {
			at = known
		}
	}
	return at.Sub(k.Created) > LinkAfter
}

// attemptOf returns the span context of an attempt.
func attemptOf(k *task.Task, attempt uint32) trace.SpanContext {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(k.ID[:], attempt))
	c := trace.SpanContextConfig{TraceID: scheduledBy(k).TraceID(), SpanID: trace.SpanID(sum[:8]), TraceFlags: trace.FlagsSampled, Remote: true}
	if isLinked(k) {
		c.TraceID = trace.TraceID(sum[8:24])
	}
	return trace.NewSpanContext(c)
}

// idsKey is the key of a context's span context, whose ids a span gets if it has some, and which is sampled
// if that is.
type idsKey struct{}

// Given returns the span context whose ids the span gets that begins in a context.
func Given(ctx context.Context) (trace.SpanContext, bool) {
	c, _ := ctx.Value(idsKey{}).(trace.SpanContext)
	return c, c.IsValid()
}

// Forced reports whether the span that begins in a context is sampled, whatever the share.
func Forced(ctx context.Context) bool {
	c, _ := ctx.Value(idsKey{}).(trace.SpanContext)
	return c.IsSampled()
}

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
