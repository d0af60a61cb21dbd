package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"connectrpc.com/grpcreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/token"
)

// plain sends a request to the plain API as an identity, and returns what came back.
func (r *running) plain(name, method, path, body string, headers ...string) (status int, answer map[string]any) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if name != "" {
		token.Put(request.Header, secretOf(name))
	}
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = json.Unmarshal(text, &answer)
	isProblem := strings.HasPrefix(response.Header.Get("Content-Type"), api.ProblemType)
	if isProblem != (response.StatusCode >= 400) || isProblem && answer["status"] != float64(response.StatusCode) {
		r.t.Errorf("%s %s: %d %s: %s", method, path, response.StatusCode, response.Header.Get("Content-Type"), text)
	}
	return response.StatusCode, answer
}

// The plain API goes through the same guard as the procedures: without a token 401, without a grant 403.
func TestThePlainAPINeedsGrants(t *testing.T) {
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{
		"root": {"*:*"}, "scheduler": {"schedule:mail"}, "reader": {"read:mail"}, "worker": {"execute:mail"}, "nobody": nil,
	})})
	if status, answer := r.plain("root", "POST", "/v1/lambdas", `{"name":"mail"}`); status != 201 {
		t.Fatal(status, answer)
	}
	_, made := r.plain("scheduler", "POST", "/v1/lambdas/mail/tasks", `{"delay":"1h"}`)
	task := fmt.Sprintf("/v1/tasks/%v", made["id"])
	for _, c := range []struct {
		method, path, body string
		may                []string
	}{
		{"POST", "/v1/lambdas", `{"name":"mail"}`, nil},
		{"GET", "/v1/lambdas/mail", "", []string{"reader"}},
		{"PATCH", "/v1/lambdas/mail", `{"max_attempts":3}`, nil},
		{"DELETE", "/v1/lambdas/mail", "", nil},
		{"POST", "/v1/lambdas/mail/tasks", `{"delay":"1h"}`, []string{"scheduler"}},
		{"GET", task, "", []string{"reader"}},
		{"GET", task + "?payload=true", "", nil},
		{"GET", task + "/wait?timeout=0s", "", []string{"reader"}},
		{"GET", "/v1/tasks?lambda=mail", "", []string{"reader"}},
		{"POST", "/v1/work/register", `{"lambdas":["mail"]}`, []string{"worker"}},
		{"DELETE", task, "", nil},
	} {
		for _, who := range []string{"", "nobody", "scheduler", "reader", "worker"} {
			status, answer := r.plain(who, c.method, c.path, c.body)
			reason := answer["reason"]
			switch {
			case who == "":
				if status != http.StatusUnauthorized || reason != "unauthenticated" {
					t.Errorf("%s %s without a token: %d %v", c.method, c.path, status, answer)
				}
			case slices.Contains(c.may, who) == (status == http.StatusForbidden), status == http.StatusForbidden && reason != "permission_denied":
				t.Errorf("%s %s as %s: %d %v", c.method, c.path, who, status, answer)
			}
		}
	}
	if status, answer := r.plain("", "GET", "/v1/openapi.json", ""); status != http.StatusUnauthorized {
		t.Error(status, answer)
	}
	if status, answer := r.plain("nobody", "GET", "/v1/openapi.json", ""); status != http.StatusOK || answer["openapi"] != "3.1.0" {
		t.Error(status, answer["openapi"])
	}
	status, answer := r.plain("", "GET", task, "", "Authorization", "Basic x")
	if status != http.StatusUnauthorized || !strings.Contains(fmt.Sprint(answer["detail"]), "Bearer TOKEN") {
		t.Error(status, answer)
	}
}

// A web page of another site cannot make a browser call the plain API.
func TestOtherSitesCannotCallThePlainAPI(t *testing.T) {
	r := serve(t, Config{})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		for header, value := range map[string]string{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example", "Host": "evil.example"} {
			request, err := http.NewRequestWithContext(t.Context(), method, r.url+"/v1/lambdas", nil)
			if err != nil {
				t.Fatal(err)
			}
			if request.Header.Set(header, value); header == "Host" {
				request.Host = value
			}
			response, err := r.http.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			isRead := header == "Origin" && method == http.MethodGet // a page cannot read the answer
			if (response.StatusCode != http.StatusForbidden) != isRead {
				t.Errorf("%s with %s: %d", method, header, response.StatusCode)
			}
			if kind := response.Header.Get("Content-Type"); !isRead && kind != "application/problem+json" {
				t.Errorf("%s with %s is refused with %s", method, header, kind)
			}
		}
	}
}

// servicesOf lists the services by reflection.
func servicesOf(ctx context.Context, calls *http.Client, url string) (int, error) {
	stream := grpcreflect.NewClient(calls, url, connect.WithGRPC()).NewStream(ctx)
	defer func() { _, _ = stream.Close() }()
	names, err := stream.ListServices()
	if err != nil {
		return 0, err
	}
	if _, err := stream.FileContainingSymbol(names[0]); err != nil {
		return 0, err
	}
	return len(names), nil
}

// Reflection answers whoever may debug: everybody on a server for this machine.
func TestReflection(t *testing.T) {
	streams := api.NewStreamTransport()
	defer streams.CloseIdleConnections()
	open := serve(t, Config{})
	if n, err := servicesOf(t.Context(), &http.Client{Transport: streams}, open.url); err != nil || n < 8 {
		t.Errorf("%d services, %v", n, err)
	}
	r := serve(t, Config{PolicyFile: policyFile(t, map[string][]string{"debugger": {"debug"}, "root": {"*:*"}, "reader": {"read:*"}})})
	for name, may := range map[string]bool{"debugger": true, "reader": false, "": false} {
		sent := ""
		if name != "" {
			sent = secretOf(name)
		}
		n, err := servicesOf(t.Context(), &http.Client{Transport: bearer{sent, streams}}, r.url)
		if (err == nil) != may {
			t.Errorf("%s: %d services, %v", name, n, err)
		}
	}
}

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
