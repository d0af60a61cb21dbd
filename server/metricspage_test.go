package server

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	coltraces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write docs/reference/metrics.md")

const (
	seriesBegin, seriesEnd = "<!-- series -->\n", "<!-- end of series -->"
	metricsPage            = "../docs/reference/metrics.md"
)

// The page has every series that a server may have, as the code describes it.
func TestMetricsPage(t *testing.T) {
	r := serve(t, Config{})
	awsObservers(r.metrics)
	kubeHooks(r.metrics)
	r.rereadPolicy(t.Context())
	var table strings.Builder
	table.WriteString("\n")
	all := r.metrics.Series()
	if len(all) < 60 {
		t.Errorf("only %d series", len(all))
	}
	for _, s := range all {
		labels := ""
		if len(s.Labels) > 0 {
			labels = " by `" + strings.Join(s.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&table, "- `%s` (%s%s): %s\n", s.Name, s.Type, labels, s.Help)
	}
	text, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), seriesBegin)
	_, after, ends := strings.Cut(rest, seriesEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the table", metricsPage)
	}
	want := before + seriesBegin + table.String() + "\n" + seriesEnd + after
	if *update {
		if err := os.WriteFile(metricsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Errorf("%s has another table than the code: make docs/metrics", metricsPage)
	}
}

// A scrape that asks for them gets native histograms; they can be turned off.
func TestNativeHistograms(t *testing.T) {
	for _, off := range []bool{false, true} {
		r := serve(t, Config{NoNativeHistograms: off, Version: "v1.2.3"})
		r.create("mail")
		r.schedule(item("mail", 0))
		r.runOne()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/metrics", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
		response, err := r.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		decoder, found := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)), map[string]*dto.MetricFamily{}
		for {
			f := &dto.MetricFamily{}
			if err := decoder.Decode(f); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			found[f.GetName()] = f
		}
		_ = response.Body.Close()
		native, classic := false, false
		for _, m := range found["kinesin_task_lateness_seconds"].GetMetric() {
			native = native || len(m.GetHistogram().GetPositiveDelta()) > 0 || m.GetHistogram().Schema != nil
			classic = classic || len(m.GetHistogram().GetBucket()) > 0
		}
		if native == off || !classic {
			t.Errorf("off %v: native histograms %v, classic ones %v", off, native, classic)
		}
		if v := found["kinesin_build_info"].GetMetric()[0].GetLabel()[1].GetValue(); v != "v1.2.3" {
			t.Errorf("version %q", v)
		}
	}
}

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
