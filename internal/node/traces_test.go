package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// spans is what an exporter in memory got.
type spans struct {
	*testing.T

	all *tracetest.InMemoryExporter
}

// tracing makes the nodes of a rig send spans to an exporter in memory.
func (s *spans) tracing(share float64) func(c *Config) {
	s.all = tracetest.NewInMemoryExporter()
	return func(c *Config) {
		traces, err := otlp.NewTracesTo(context.Background(), s.all, share)
		if err != nil {
			s.Fatal(err)
		}
		c.Tracer = traces.Tracer()
		c.Clock = wall{clock.Real()}
		c.Buffer = buffertest.NewMemory(c.Clock)
	}
}

// named returns the spans of a name.
func (s *spans) named(name string) (found []tracetest.SpanStub) {
	for _, span := range s.all.GetSpans() {
		if span.Name == name {
			found = append(found, span)
		}
	}
	return found
}

func (s *spans) one(name string) tracetest.SpanStub {
	s.Helper()
	found := s.named(name)
	if len(found) != 1 {
		s.Fatalf("%d spans %s, want 1", len(found), name)
	}
	return found[0]
}

func (s *spans) below(child, parent tracetest.SpanStub) {
	s.Helper()
	if child.Parent.SpanID() != parent.SpanContext.SpanID() || child.SpanContext.TraceID() != parent.SpanContext.TraceID() {
		s.Errorf("%s is below %v, not below %s, which is %v", child.Name, child.Parent, parent.Name, parent.SpanContext)
	}
}

// One trace goes from the span of the caller through the buffer, the store, the dispatch, the queue and the
// attempt to the span of the handler. Nothing but the context of the caller begins it: the share is 0.
func TestOneTraceFromTheCallerToTheHandler(t *testing.T) {
	t.Parallel()
	for _, queued := range []bool{true, false} {
		oneTrace(t, queued)
	}
}

func oneTrace(t *testing.T, queued bool) {
	t.Helper()
	s := &spans{T: t}
	config := s.tracing(0)
	inRig(t, drivers{}, 1, func(c *Config) {
		config(c)
		c.NoMatch = queued
	}, func(r *rig) {
		s.T = r.T
		r.lambda(admin.Lambda{Name: "mail"})
		handled := make(chan trace.SpanContext, 1)
		own := sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.all)).Tracer("the caller's")
		r.work(r.nodes[0], "mail", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
			_, span := own.Start(ctx, "handler")
			span.End()
			handled <- trace.SpanContextFromContext(ctx)
			return nil
		})
		r.schedule(sdk.Item{Lambda: "mail"}) // not traced
		<-handled
		ctx, span := own.Start(r.ctx, "caller")
		if _, err := r.client.Schedule(ctx, sdk.Item{Lambda: "mail", In: time.Minute}); err != nil {
			r.Fatal(err)
		}
		span.End()
		got := <-handled
		time.Sleep(5 * time.Second) // the result is stored
		caller, attempt := s.one("caller"), s.one("kinesin.attempt")
		s.below(s.one("kinesin.v1.TaskService/Schedule"), caller)
		s.below(s.one("kinesin.schedule"), s.one("kinesin.v1.TaskService/Schedule"))
		s.below(s.one("kinesin.buffer"), s.one("kinesin.schedule"))
		s.below(attempt, s.one("kinesin.schedule"))
		s.below(s.one("kinesin.dispatch"), attempt)
		if queued { // another one may be matched
			s.below(s.one("kinesin.queue"), attempt)
		}
		if got.SpanID() != attempt.SpanContext.SpanID() || !got.IsSampled() {
			s.Errorf("the handler is below %v, not below the attempt, %v", got, attempt.SpanContext)
		}
		handlers := s.named("handler")
		s.below(handlers[len(handlers)-1], attempt)
		if wait := attempt.StartTime.Sub(caller.StartTime); wait < time.Minute-time.Second {
			s.Errorf("the attempt began %v after the call", wait)
		}
	})
}

// An occurrence of a cron has a trace of its own, with a link to the call that set the cron.
func TestOccurrencesAreTraced(t *testing.T) {
	t.Parallel()
	s := &spans{T: t}
	inRig(t, drivers{}, 1, s.tracing(1), func(r *rig) {
		s.T = r.T
		r.lambda(admin.Lambda{Name: "mail"})
		handled := make(chan trace.SpanContext, 10)
		r.work(r.nodes[0], "mail", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
			handled <- trace.SpanContextFromContext(ctx)
			return nil
		})
		if _, _, err := r.admin().Crons.Create(r.ctx, admin.Cron{Name: "hourly", Lambda: "mail", Schedule: "0 * * * *"}); err != nil {
			r.Fatal(err)
		}
		first, second := <-handled, <-handled
		time.Sleep(5 * time.Second)
		if first.TraceID() == second.TraceID() {
			s.Error("two occurrences are in one trace")
		}
		fired := s.named("kinesin.cron")
		if len(fired) < 2 {
			s.Fatalf("%d spans of occurrences", len(fired))
		}
		set := s.one("kinesin.v1.CronService/SetCron").SpanContext
		for _, span := range fired {
			if span.Parent.IsValid() || len(span.Links) != 1 || span.Links[0].SpanContext.SpanID() != set.SpanID() {
				s.Errorf("%s has parent %v and links %v, want a link to %v", span.Name, span.Parent, span.Links, set)
			}
			if !slices.Contains(span.Attributes, attribute.String("kinesin.cron", "hourly")) {
				s.Errorf("attributes %v", span.Attributes)
			}
		}
		// The second one waited for an hour, so that its attempt has a trace of its own, with a link.
		last := s.named("kinesin.attempt")[1]
		if last.SpanContext.TraceID() != second.TraceID() || len(last.Links) != 1 || last.Links[0].SpanContext.TraceID() != fired[1].SpanContext.TraceID() {
			s.Errorf("the attempt %v has links %v, want %v", last.SpanContext, last.Links, fired[1].SpanContext)
		}
	})
}

// With no share of traces an occurrence has none, and neither has a job.
func TestOccurrencesFollowTheShare(t *testing.T) {
	t.Parallel()
	s := &spans{T: t}
	inRig(t, drivers{}, 1, s.tracing(0), func(r *rig) {
		s.T = r.T
		r.lambda(admin.Lambda{Name: "mail"})
		if _, _, err := r.admin().Crons.Create(r.ctx, admin.Cron{Name: "hourly", Lambda: "mail", Schedule: "0 * * * *"}); err != nil {
			r.Fatal(err)
		}
		if _, err := r.admin().Jobs.Create(r.ctx, admin.JobSpec{Action: admin.JobCancel, Where: "lambda=mail"}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(3 * time.Hour)
		if all := s.all.GetSpans(); len(all) != 0 {
			s.Errorf("%d spans, the first one %s", len(all), all[0].Name)
		}
	})
}

// Each step of a job whose call is traced has a span with a link to the call.
func TestJobsAreTraced(t *testing.T) {
	t.Parallel()
	s := &spans{T: t}
	inRig(t, drivers{}, 1, s.tracing(1), func(r *rig) {
		s.T = r.T
		r.lambda(admin.Lambda{Name: "mail"})
		r.schedule(sdk.Item{Lambda: "mail", In: time.Hour})
		time.Sleep(10 * time.Second) // it has left the buffer
		s.all.Reset()
		if _, err := r.admin().Jobs.Create(r.ctx, admin.JobSpec{Action: admin.JobCancel, Where: "lambda=mail"}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		made, steps := s.one("kinesin.v1.JobService/CreateJob"), s.named("kinesin.job")
		tasks := int64(0)
		for _, span := range steps {
			if span.Parent.IsValid() || len(span.Links) != 1 || span.Links[0].SpanContext.SpanID() != made.SpanContext.SpanID() {
				s.Errorf("a step has parent %v and links %v, want a link to %v", span.Parent, span.Links, made.SpanContext)
			}
			for _, a := range span.Attributes {
				if a.Key == "kinesin.tasks" {
					tasks += a.Value.AsInt64()
				}
			}
		}
		if tasks != 1 {
			s.Errorf("%d steps changed %d tasks, want 1", len(steps), tasks)
		}
	})
}
