package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/internal/token"
)

var (
	goodToken = strings.Repeat("good", 8)
	nextToken = strings.Repeat("next", 8)
)

// bearer adds a token, or none, to a request.
type bearer struct {
	token string
	next  http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		token.Put(r.Header, b.token)
	}
	return b.next.RoundTrip(r)
}

// noTokens is a registry without tokens.
type noTokens struct{}

func (noTokens) Find(context.Context, string) (tokens.Token, error) {
	return tokens.Token{}, tokens.ErrUnknown
}

func (noTokens) FindHash(context.Context, [sha256.Size]byte) (tokens.Token, error) {
	return tokens.Token{}, tokens.ErrUnknown
}

func writeFile(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func tokenFile(t *testing.T, tokens ...string) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "tokens"), strings.Join(tokens, "\n"))
}

// as makes the test's own calls with a token.
func (r *running) as(token string) { r.http.Transport = bearer{token, r.http.Transport} }

func TestEveryProtocolNeedsAToken(t *testing.T) {
	r := serve(t, Config{AuthTokenFile: tokenFile(t, nextToken, goodToken)})
	streams := api.NewStreamTransport()
	defer streams.CloseIdleConnections()
	for _, sent := range []string{"", "wrong" + goodToken, goodToken[:31], goodToken, nextToken} {
		calls := &http.Client{Transport: bearer{sent, r.http.Transport}}
		long := &http.Client{Transport: bearer{sent, streams}}
		options := func(more ...connect.ClientOption) []connect.ClientOption { return append(api.ClientOptions(), more...) }
		for name, client := range map[string]kinesinv1connect.LambdaServiceClient{
			"Connect":                kinesinv1connect.NewLambdaServiceClient(calls, r.url, options()...),
			"Connect by GET":         kinesinv1connect.NewLambdaServiceClient(calls, r.url, options(connect.WithHTTPGet())...),
			"Connect and JSON":       kinesinv1connect.NewLambdaServiceClient(calls, r.url, options(connect.WithProtoJSON())...),
			"Connect over HTTP/2":    kinesinv1connect.NewLambdaServiceClient(long, r.url, options()...),
			"gRPC-Web":               kinesinv1connect.NewLambdaServiceClient(calls, r.url, options(connect.WithGRPCWeb())...),
			"gRPC":                   kinesinv1connect.NewLambdaServiceClient(long, r.url, options(connect.WithGRPC())...),
			"a call that is unheard": nil,
		} {
			var err error
			if client == nil {
				_, err = kinesinv1connect.NewInboundServiceClient(long, r.url, options()...).Key(t.Context(), &kinesinv1.KeyRequest{})
				if errors.Is(api.FromWire(err), api.ErrUnsupported) { // there is no buffer
					err = nil
				}
			} else {
				_, err = client.ListLambdas(t.Context(), &kinesinv1.ListLambdasRequest{})
			}
			if sent == goodToken || sent == nextToken {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if connect.CodeOf(err) != connect.CodeUnauthenticated || !errors.Is(api.FromWire(err), api.ErrUnauthenticated) ||
				!strings.Contains(err.Error(), "--token-file") || sent != "" && strings.Contains(err.Error(), sent) {
				t.Errorf("%s with %q: %v", name, sent, err)
			}
		}
		work, err := kinesinv1connect.NewWorkerServiceClient(long, r.url, options()...).Work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = work.Send(&kinesinv1.WorkRequest{})
		_, err = work.Receive()
		if refused := errors.Is(api.FromWire(err), api.ErrUnauthenticated); refused == (sent == goodToken || sent == nextToken) {
			t.Errorf("a stream with %q: %v", sent, err)
		}
		_ = errors.Join(work.CloseRequest(), work.CloseResponse())
	}
}

func TestWhatCurlSeesWithoutAToken(t *testing.T) {
	r := serve(t, Config{AuthTokenFile: tokenFile(t, goodToken)})
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if status, body := r.get(path); status != http.StatusOK || strings.Count(body, " ") > 0 {
			t.Errorf("%s: %d %q, want a word", path, status, body)
		}
	}
	for _, path := range []string{"/metrics", "/nothing", "/healthz/", "//healthz", "/kinesin.v1.TaskService/Get", "/livez/../metrics"} {
		if status, body := r.get(path); status != http.StatusUnauthorized || !strings.Contains(body, "--auth-token-file") {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/healthz", nil)
	response, err := r.http.Do(request)
	if err != nil || response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("%v, %v", response, err)
	}
	_ = response.Body.Close()
	if status, answer := r.post("LambdaService/ListLambdas", `{}`); status != http.StatusUnauthorized || answer["code"] != "unauthenticated" {
		t.Errorf("%d %v", status, answer)
	}
	request, _ = http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/metrics", nil)
	request.Header.Set("Authorization", "Basic "+goodToken)
	if response, err = r.http.Do(request); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Fatalf("%v, %v", response, err)
	}
	body, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if !strings.Contains(string(body), "Bearer TOKEN") {
		t.Errorf("%q", body)
	}
	r.as(goodToken)
	r.wantMetric(`kinesin_unauthenticated_calls_total{reason="none"}`, "8")
	r.wantMetric(`kinesin_unauthenticated_calls_total{reason="form"}`, "1")
	if status, _ := r.get("/nothing"); status != http.StatusNotFound {
		t.Errorf("with a token /nothing is %d", status)
	}
}

func TestTokensAreReplacedWhileItRuns(t *testing.T) {
	path, virtual := tokenFile(t, goodToken), clock.NewVirtual(0, 1)
	l := &runtest.Text{}
	s := &Server{config: Config{Log: slog.New(slog.NewJSONHandler(l, nil))}}
	tokens, err := token.OpenSet(path, virtual.Process(0), s.reread(t.Context(), "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(credentials{tokens: tokens}, noTokens{}, nil, node.NewMetrics(node.MetricsConfig{}), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	want := func(when, taken, refused string, says string) {
		t.Helper()
		virtual.Advance(livefile.LookEvery)
		for sent, status := range map[string]int{taken: http.StatusOK, refused: http.StatusUnauthorized} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			token.Put(r.Header, sent)
			w := httptest.NewRecorder()
			if g.ServeHTTP(w, r); w.Code != status {
				t.Errorf("%s %s is answered with %d, want %d", when, sent, w.Code, status)
			}
		}
		if !strings.Contains(l.String(), says) {
			t.Errorf("%s: the log does not say %q: %s", when, says, l)
		}
	}
	want("at the start", goodToken, nextToken, "")
	writeFile(t, path, nextToken)
	want("replaced", nextToken, goodToken, "reloaded a changed file")
	writeFile(t, path, goodToken[:31])
	want("with a short one", nextToken, goodToken, "keeping the previous contents")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	want("removed", nextToken, goodToken, "no such file")
	if text := l.String(); strings.Contains(text, goodToken[:31]) || strings.Contains(text, nextToken) {
		t.Error("a token is in the log")
	}
}

func TestCertificatesAreReplacedWhileItRuns(t *testing.T) {
	a, virtual := tlstest.New(t), clock.NewVirtual(0, 1)
	var told []error
	pair, err := livefile.OpenPair(a.CertFile, a.KeyFile, virtual.Process(0), func(err error) { told = append(told, err) })
	if err != nil {
		t.Fatal(err)
	}
	serial := a.Renew()
	virtual.Advance(livefile.LookEvery)
	if got := pair.Get().Leaf.SerialNumber.String(); got != serial || len(told) != 1 || told[0] != nil {
		t.Errorf("certificate %s, told %v; want %s", got, told, serial)
	}
	writeFile(t, a.KeyFile, "half")
	virtual.Advance(livefile.LookEvery)
	if got := pair.Get().Leaf.SerialNumber.String(); got != serial || len(told) != 2 || told[1] == nil {
		t.Errorf("with half a key: certificate %s, told %v", got, told)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	a := tlstest.New(t)
	r := serveTLS(t, Config{AuthTokenFile: tokenFile(t, goodToken), TLSCertFile: a.CertFile, TLSKeyFile: a.KeyFile}, a)
	r.as(goodToken)
	r.create("mail")
	streams := api.NewStreamTransport()
	streams.TLSClientConfig = a.Trust()
	defer streams.CloseIdleConnections()
	work, err := kinesinv1connect.NewWorkerServiceClient(&http.Client{Transport: bearer{goodToken, streams}}, r.url, api.ClientOptions()...).Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = work.Send(&kinesinv1.WorkRequest{})
	if _, err := work.Receive(); errors.Is(api.FromWire(err), api.ErrUnavailable) {
		t.Errorf("a stream over TLS: %v", err)
	}
	_ = errors.Join(work.CloseRequest(), work.CloseResponse())

	plain := &http.Client{Transport: api.NewCallTransport()}
	defer plain.CloseIdleConnections()
	response, err := plain.Get("http://" + r.Addr().String() + "/healthz")
	if err != nil || response.StatusCode != http.StatusBadRequest {
		t.Fatalf("plain HTTP at a TLS port: %v, %v", response, err)
	}
	_ = response.Body.Close()
}

func TestTokensThatCannotBeUsed(t *testing.T) {
	a, other := tlstest.New(t), tlstest.New(t)
	cert, key, otherKey := a.CertFile, a.KeyFile, other.KeyFile
	for _, c := range []struct {
		name   string
		config Config
		words  []string
	}{
		{"no file", Config{AuthTokenFile: filepath.Join(t.TempDir(), "nowhere")}, []string{"nowhere", "no such file"}},
		{"a directory", Config{AuthTokenFile: t.TempDir()}, []string{"no regular file"}},
		{"empty", Config{AuthTokenFile: tokenFile(t)}, []string{"no token", "openssl rand -hex 32"}},
		{"short", Config{AuthTokenFile: tokenFile(t, goodToken, "abc")}, []string{"line 2", "3 characters", "want 32 to 8192"}},
		{"large", Config{AuthTokenFile: tokenFile(t, strings.Repeat("x", token.FileBytesMax+1))}, []string{"longer than 65536 bytes"}},
		{"half of TLS", Config{TLSCertFile: cert}, []string{"--tls-key-file", "both"}},
		{"the other half", Config{TLSKeyFile: key}, []string{"--tls-cert-file", "both"}},
		{"no certificate", Config{TLSCertFile: key, TLSKeyFile: key}, []string{key, "certificate PEM data"}},
		{"another one's key", Config{TLSCertFile: cert, TLSKeyFile: otherKey}, []string{cert, otherKey, "does not match"}},
	} {
		c.config.DataDir, c.config.Listen = t.TempDir(), "127.0.0.1:0"
		_, err := New(t.Context(), c.config)
		if !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v, want ErrConfig", c.name, err)
			continue
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", c.name, err, word)
			}
		}
	}
}

func TestFilesWithSecretsThatAllMayRead(t *testing.T) {
	for mode, loose := range map[os.FileMode]bool{0o600: false, 0o440: false, 0o644: true, 0o602: true} {
		path := tokenFile(t, goodToken)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		r := serve(t, Config{AuthTokenFile: path})
		if text := r.logs.String(); strings.Contains(text, "may use a file with a secret") != loose || loose != strings.Contains(text, path) || strings.Contains(text, goodToken) {
			t.Errorf("%04o: %s", mode, text)
		}
	}
}
