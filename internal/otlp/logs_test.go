package otlp_test

import (
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	collogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/otlp"
)

func TestTheCollectorGetsRecords(t *testing.T) {
	got := make(chan *collogs.ExportLogsServiceRequest, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/v1/logs" {
			t.Errorf("path %s", r.URL.Path)
		}
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			zipped, err := gzip.NewReader(r.Body)
			if err != nil {
				t.Error(err)
				return
			}
			body = zipped
		}
		raw, err := io.ReadAll(body)
		request := &collogs.ExportLogsServiceRequest{}
		if err == nil {
			err = proto.Unmarshal(raw, request)
		}
		if err != nil {
			t.Error(err)
		}
		got <- request
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	defer collector.Close()
	l, err := otlp.NewAuditLog(t.Context(), collector.URL+"/base", func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	l.Write(audit.Record{At: 5_000_000, Identity: "root", Action: "lambda.create", Target: "mail", Outcome: audit.OK, Count: 1})
	l.Write(audit.Record{At: 6_000_000, Identity: "team", Action: "lambda.delete", Target: "mail", Outcome: audit.Denied, Count: 3})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(got)
	var actions []string
	for request := range got {
		for _, of := range request.ResourceLogs {
			for _, in := range of.ScopeLogs {
				for _, r := range in.LogRecords {
					for _, a := range r.Attributes {
						if a.Key == "action" {
							actions = append(actions, r.SeverityText+a.Value.GetStringValue())
						}
					}
					if r.TimeUnixNano == 6_000_000_000 && r.Body.GetStringValue() != `{"at":"1970-01-01T00:00:06.000000Z","identity":"team","from":"","action":"lambda.delete","target":"mail","outcome":"denied","count":3}` {
						t.Errorf("body %s", r.Body.GetStringValue())
					}
				}
			}
		}
	}
	if len(actions) != 2 || actions[0] != "lambda.create" || actions[1] != "lambda.delete" {
		t.Errorf("records of %q", actions)
	}
}

func TestACollectorThatRefuses(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	defer collector.Close()
	var failed atomic.Int32
	l, err := otlp.NewAuditLog(t.Context(), collector.URL, func(error) { failed.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	l.Write(audit.Record{At: 5_000_000, Action: "lambda.create"})
	if err := l.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if failed.Load() != 1 {
		t.Errorf("told of %d failures, want 1", failed.Load())
	}
}

func TestBadEndpoints(t *testing.T) {
	for _, bad := range []string{"localhost:4318", "ftp://x", "http://", "http://u:p@x:4318", "http://x?y=1", "::"} {
		if _, err := otlp.NewAuditLog(t.Context(), bad, nil); !errors.Is(err, otlp.ErrEndpoint) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
