package server

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	coltraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// One trace shows a task from the call that schedules it to its result, and its lateness has it as exemplar.
func TestATaskIsOneTrace(t *testing.T) {
	var mu sync.Mutex
	spans, paths := map[string]*tracepb.Span{}, map[string]bool{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		if zipped, err := gzip.NewReader(bytes.NewReader(raw)); err == nil {
			raw, _ = io.ReadAll(zipped)
		}
		mu.Lock()
		defer mu.Unlock()
		paths[r.URL.Path] = true
		request := &coltraces.ExportTraceServiceRequest{}
		if r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, request) != nil {
			return
		}
		for _, of := range request.ResourceSpans {
			for _, in := range of.ScopeSpans {
				for _, s := range in.Spans {
					spans[s.Name] = s
				}
			}
		}
	}))
	defer collector.Close()
	r := serve(t, Config{OTLPEndpoint: collector.URL, TraceSample: 1, OTLPMetrics: true})
	r.create("mail")
	r.schedule(item("mail", 0))
	claimed := r.runOne()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	response, err := r.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	call := spans["kinesin.v1.TaskService/Schedule"]
	if call == nil {
		t.Fatalf("no span of the call among %v", spans)
	}
	trace := hex.EncodeToString(call.TraceId)
	for _, name := range []string{"kinesin.schedule", "kinesin.store apply", "kinesin.queue", "kinesin.attempt"} {
		if s := spans[name]; s == nil || hex.EncodeToString(s.TraceId) != trace {
			t.Errorf("span %s: %v, want it in trace %s", name, s, trace)
		}
	}
	if got, want := claimed.GetTraceparent(), "00-"+trace+"-"+hex.EncodeToString(spans["kinesin.attempt"].GetSpanId())+"-01"; got != want {
		t.Errorf("the handler gets %s, want %s", got, want)
	}
	if !strings.Contains(string(text), `# {trace_id="`+trace+`"}`) {
		t.Error("no exemplar")
	}
	if !paths["/v1/metrics"] {
		t.Errorf("the collector got %v", paths)
	}
}
