package otlp_test

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/internal/tracing"
)

// calls makes calls of Schedule, and returns how many of them had their tasks traced.
func calls(t *testing.T, tracer *tracing.Tracer, count int, traceparent string) (traced int) {
	t.Helper()
	of, err := tracer.Interceptor()
	if err != nil {
		t.Fatal(err)
	}
	item := &kinesinv1.ScheduleItem{Lambda: "mail"}
	handle := of.WrapUnary(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, end := tracer.Scheduling(ctx, []*kinesinv1.ScheduleItem{item})
		tracer.Op(ctx, "kinesin.store", "apply", time.Millisecond, nil)
		end()
		return connect.NewResponse(&kinesinv1.ScheduleResponse{}), nil
	})
	request := connect.NewRequest(&kinesinv1.ScheduleRequest{})
	if traceparent != "" {
		request.Header().Set("Traceparent", traceparent)
	}
	for range count {
		item.Traceparent = ""
		if _, err := handle(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if tracing.IsSampled(item.Traceparent) {
			traced++
		}
	}
	return traced
}

// The share is drawn once for a call, and all its spans follow it.
func TestTheShareOfCalls(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	traces, err := otlp.NewTracesTo(t.Context(), spans, 0.1)
	if err != nil {
		t.Fatal(err)
	}
	traced := calls(t, traces.Tracer(), 10_000, "")
	if traced < 850 || traced > 1150 { // five standard deviations
		t.Errorf("%d of 10,000 calls are traced, want about 1,000", traced)
	}
	if got := len(spans.GetSpans()); got != 3*traced { // the call, kinesin.schedule, kinesin.store
		t.Errorf("%d spans of %d traces", got, traced)
	}
}

// A call that brings a trace is traced if that is sampled, whatever the share.
func TestTheTraceOfTheCallerDecides(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 1} {
		for flags, want := range map[string]int{"01": 1, "00": 0} {
			traces, err := otlp.NewTracesTo(t.Context(), tracetest.NewInMemoryExporter(), share)
			if err != nil {
				t.Fatal(err)
			}
			if got := calls(t, traces.Tracer(), 1, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-"+flags); got != want {
				t.Errorf("share %v, flags %s: %d traced, want %d", share, flags, got, want)
			}
		}
	}
}

// A call that is not traced allocates nothing for it.
func TestAnUntracedCallAllocatesNothing(t *testing.T) {
	traces, err := otlp.NewTracesTo(t.Context(), tracetest.NewNoopExporter(), 0)
	if err != nil {
		t.Fatal(err)
	}
	tracer := traces.Tracer()
	of, err := tracer.Interceptor()
	if err != nil {
		t.Fatal(err)
	}
	response := connect.NewResponse(&kinesinv1.ScheduleResponse{})
	handle := of.WrapUnary(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
		ctx, end := tracer.Scheduling(ctx, nil)
		tracer.Op(ctx, "kinesin.store", "apply", time.Millisecond, nil)
		end()
		return response, nil
	})
	request := connect.NewRequest(&kinesinv1.ScheduleRequest{})
	if allocs := testing.AllocsPerRun(100, func() { _, _ = handle(t.Context(), request) }); allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
