package otlp_test

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/internal/tracing"
)

// BenchmarkATask is what traces cost a server for one task that is scheduled alone: its spans, and asking
// whether it has some. The exporter drops them, so that what is left out is the sending of one task in a
// hundred.
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
			k, item := tracedTask(time.Minute), &kinesinv1.ScheduleItem{Lambda: "mail"}
			items := []*kinesinv1.ScheduleItem{item}
			b.ReportAllocs()
			for b.Loop() {
				item.Traceparent = ""
				ctx, end := tracer.Scheduling(b.Context(), items)
				tracer.Op(ctx, "kinesin.store", "apply", time.Millisecond, nil)
				end()
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
