package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestCallsOfOtherSitesAreRefused(t *testing.T) {
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for site, want := range map[string]int{
		"": http.StatusNoContent, "none": http.StatusNoContent, "same-origin": http.StatusNoContent,
		"same-site": http.StatusForbidden, "cross-site": http.StatusForbidden,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			r := httptest.NewRequestWithContext(t.Context(), method, "/kinesin.v1.LambdaService/ListLambdas", nil)
			if site != "" {
				r.Header.Set("Sec-Fetch-Site", site)
			}
			w := httptest.NewRecorder()
			sameOrigin(inside).ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s from site %q: %d, want %d", method, site, w.Code, want)
			}
		}
	}
}

func TestOnlyThisMachineIsAnswered(t *testing.T) {
	inside := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, c := range []struct {
		host, origin string
		want         int
	}{
		{"127.0.0.1:7070", "", http.StatusNoContent},
		{"localhost:7070", "", http.StatusNoContent},
		{"[::1]:7070", "", http.StatusNoContent},
		{"[::1]", "", http.StatusNoContent},
		{"127.1.2.3", "", http.StatusNoContent},
		{"localhost:7070", "http://localhost:7070", http.StatusNoContent},
		{"localhost:7070", "https://evil.example", http.StatusForbidden},
		{"evil.example", "", http.StatusForbidden},
		{"evil.example:7070", "http://evil.example:7070", http.StatusForbidden},
		{"10.0.0.1:7070", "", http.StatusForbidden},
		{"", "", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/kinesin.v1.LambdaService/ListLambdas", nil)
		r.Host = c.host
		if c.origin != "" {
			r.Header.Set("Origin", c.origin)
		}
		w := httptest.NewRecorder()
		loopbackOnly(inside).ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("host %q, origin %q: %d, want %d", c.host, c.origin, w.Code, c.want)
		}
	}
}
