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

// BenchmarkATask is what traces cost a server for one task that is scheduled alone: its call, its spans,
// and asking whether it has some. The exporter drops them: the sending of one task in a hundred is left out.
func BenchmarkATask(b *testing.B) {
	for _, c := range []struct {
		name  string
		share float64
	}{{"off", -1}, {"0", 0}, {"1%", 0.01}, {"100%", 1}} {
		b.Run(c.name, func(b *testing.B) {
			var tracer *tracing.Tracer
			if c.share >= 0 {
				traces, err := otlp.NewTracesTo(b.Context(), tracetest.NewNoopExporter(), c.share)
				if err != nil {
					b.Fatal(err)
				}
				tracer = traces.Tracer()
			}
			var of connect.Interceptor
			if tracer != nil {
				var err error
				if of, err = tracer.Interceptor(); err != nil {
					b.Fatal(err)
				}
			}
			k, item := tracedTask(time.Minute), &kinesinv1.ScheduleItem{Lambda: "mail"}
			items := []*kinesinv1.ScheduleItem{item}
			request, response := connect.NewRequest(&kinesinv1.ScheduleRequest{}), connect.NewResponse(&kinesinv1.ScheduleResponse{})
			request.Header().Set("User-Agent", "bench")
			handle := connect.UnaryFunc(func(ctx context.Context, _ connect.AnyRequest) (connect.AnyResponse, error) {
				ctx, end := tracer.Scheduling(ctx, items)
				tracer.Op(ctx, "kinesin.store", "apply", time.Millisecond, nil)
				end()
				return response, nil
			})
			if of != nil {
				handle = of.WrapUnary(handle)
			}
			b.ReportAllocs()
			for b.Loop() {
				item.Traceparent = ""
				if _, err := handle(b.Context(), request); err != nil {
					b.Fatal(err)
				}
				k.Traceparent = item.Traceparent
				if !tracer.Traces(k) {
					continue
				}
				tracer.Dispatched(k, "mail", k.Enqueued)
				tracer.Claimed(k, "mail")
				tracer.Attempted(k, "mail", "success", false, k.ClaimedAt.Add(time.Second))
			}
		})
	}
}
