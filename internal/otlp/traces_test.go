package otlp_test

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	colmetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	coltraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/internal/otlp"
	"github.com/kinesin-io/kinesin/internal/tracing"
	"github.com/kinesin-io/kinesin/task"
)

// collector keeps what it gets.
type collector struct {
	*httptest.Server

	mu     sync.Mutex
	spans  []*tracepb.Span
	series []string
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		zipped, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := io.ReadAll(zipped)
		if err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch r.URL.Path {
		case "/v1/traces":
			request := &coltraces.ExportTraceServiceRequest{}
			if err := proto.Unmarshal(raw, request); err != nil {
				t.Error(err)
			}
			for _, of := range request.ResourceSpans {
				for _, in := range of.ScopeSpans {
					c.spans = append(c.spans, in.Spans...)
				}
			}
		case "/v1/metrics":
			request := &colmetrics.ExportMetricsServiceRequest{}
			if err := proto.Unmarshal(raw, request); err != nil {
				t.Error(err)
			}
			for _, of := range request.ResourceMetrics {
				for _, in := range of.ScopeMetrics {
					for _, m := range in.Metrics {
						c.series = append(c.series, m.Name)
					}
				}
			}
		default:
			t.Errorf("path %s", r.URL.Path)
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) span(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	for _, s := range c.spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no span %s among %d", name, len(c.spans))
	return nil
}

const scheduled = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func tracedTask(wait time.Duration) *task.Task {
	at := task.Instant(1_800_000_000_000_000)
	return &task.Task{
		ID: task.ID{1, 2, 3}, Traceparent: scheduled, Created: at, Due: at.Add(wait), Attempt: 1,
		Enqueued: at.Add(wait), ClaimedAt: at.Add(wait + time.Millisecond), Started: at.Add(wait + 2*time.Millisecond), Worker: "w",
	}
}

// All spans of a task are in the trace of the call that scheduled it; the handler's parent is the attempt.
func TestTheSpansOfATask(t *testing.T) {
	c := newCollector(t)
	traces, err := otlp.NewTraces(t.Context(), c.URL, 0.001, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	k, tracer := tracedTask(time.Minute), traces.Tracer()
	tracer.Dispatched(k, "mail", k.Enqueued)
	tracer.Claimed(k, "mail")
	tracer.Attempted(k, "mail", "retriable", true, k.ClaimedAt.Add(time.Second))
	other := *k
	other.Traceparent = scheduled[:len(scheduled)-1] + "0"
	tracer.Attempted(&other, "mail", "success", false, k.ClaimedAt) // not sampled
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(c.spans) != 3 {
		t.Errorf("%d spans, want 3", len(c.spans))
	}
	attempt := c.span(t, "kinesin.attempt")
	if got := hex.EncodeToString(attempt.TraceId) + hex.EncodeToString(attempt.ParentSpanId); got != scheduled[3:35]+scheduled[36:52] {
		t.Errorf("attempt below %s", got)
	}
	if got := tracer.Traceparent(k); got != "00-"+scheduled[3:35]+"-"+hex.EncodeToString(attempt.SpanId)+"-01" {
		t.Errorf("the handler gets %s, the attempt is %x", got, attempt.SpanId)
	}
	if attempt.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || len(attempt.Events) != 1 {
		t.Errorf("status %v, events %v", attempt.Status, attempt.Events)
	}
	for _, name := range []string{"kinesin.dispatch", "kinesin.queue"} {
		if s := c.span(t, name); !slices.Equal(s.ParentSpanId, attempt.SpanId) || !slices.Equal(s.TraceId, attempt.TraceId) {
			t.Errorf("%s is not below the attempt", name)
		}
	}
}

// After a long wait an attempt has a trace of its own, which is sent whatever the share, with a link.
func TestALongWaitIsALink(t *testing.T) {
	c := newCollector(t)
	traces, err := otlp.NewTraces(t.Context(), c.URL, 0.000001, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, tracer := tracedTask(tracing.LinkAfter+time.Hour), traces.Tracer()
	tracer.Claimed(k, "mail")
	tracer.Attempted(k, "mail", "success", false, k.ClaimedAt.Add(time.Second))
	again := *k
	again.Attempt = 2
	if tracer.Traceparent(&again) == tracer.Traceparent(k) {
		t.Error("two attempts have the same span")
	}
	if err := traces.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	attempt := c.span(t, "kinesin.attempt")
	if id := hex.EncodeToString(attempt.TraceId); id == scheduled[3:35] || len(attempt.ParentSpanId) > 0 || id != tracer.Traceparent(k)[3:35] {
		t.Errorf("trace %s below %x", id, attempt.ParentSpanId)
	}
	if len(attempt.Links) != 1 || hex.EncodeToString(attempt.Links[0].TraceId) != scheduled[3:35] {
		t.Errorf("links %v", attempt.Links)
	}
	if s := c.span(t, "kinesin.queue"); !slices.Equal(s.TraceId, attempt.TraceId) || !slices.Equal(s.ParentSpanId, attempt.SpanId) {
		t.Error("the wait in the queue is not below the attempt")
	}
}

// Without a tracer nothing is made, and what is asked for each task costs no memory.
func TestOffCostsNothing(t *testing.T) {
	var off *tracing.Tracer
	k := tracedTask(0)
	if n := testing.AllocsPerRun(100, func() {
		if off.Traces(k) || off.Traceparent(k) != scheduled {
			t.Error("traced")
		}
		off.Op(t.Context(), "store", "x", 0, nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestTheCollectorGetsSeries(t *testing.T) {
	c := newCollector(t)
	r := prometheus.NewRegistry()
	n := prometheus.NewCounter(prometheus.CounterOpts{Name: "kinesin_tries_total", Help: "Tries."})
	r.MustRegister(n)
	m, err := otlp.NewMetrics(t.Context(), c.URL, r, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(c.series, "kinesin_tries_total") {
		t.Errorf("series %v", c.series)
	}
}
