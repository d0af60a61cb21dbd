package cli_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestWorkerCallsAURL(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.must("lambda", "create", "a", "--backoff", "1ms..2ms")
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case len(strings.Fields(r.Header.Get("webhook-signature"))) != 2:
			w.WriteHeader(http.StatusUnauthorized)
		case string(body) == "bad":
			http.Error(w, "no such user", http.StatusNotFound)
		case string(body) == "flaky" && r.Header.Get("kinesin-attempt") != "3":
			w.WriteHeader(http.StatusBadGateway)
		}
		_, _ = io.WriteString(w, `{"path":"`+r.URL.Path+`"}`)
	}))
	defer receiver.Close()
	secrets := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(secrets, []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\nwhsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var o outcome
	var working sync.WaitGroup
	working.Go(func() {
		o = run(ctx, nil, "", "worker", "--server", s.url, "--lambda", "a", "--concurrency", "4", "--http", receiver.URL+"/{key}", "--http-secret-file", secrets)
	})
	for payload, want := range map[string]string{"ok": "success", "bad": "fatal_failure", "flaky": "success"} {
		id := s.must("schedule", "a", "--payload", payload, "--key", payload)
		s.do("wait", id, "--timeout", "20s")
		if o := s.object("get", id); o["state"] != want {
			t.Errorf("%s: %v", payload, o)
		}
		if text := s.must("get", id); !strings.Contains(text, map[string]string{"ok": `{"path":"/ok"}`, "bad": "answered 404 Not Found: no such user", "flaky": "answered 502"}[payload]) {
			t.Error(text)
		}
	}
	stop()
	working.Wait()
	if o.code != 0 || !strings.Contains(o.stderr, "kinesin: stopped: 1 fatal_failure, 2 retriable_failure, 2 success; what waits") {
		t.Errorf("worker: exit %d: %s", o.code, o.stderr)
	}
}
