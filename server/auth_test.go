package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/token"
)

var (
	goodToken = strings.Repeat("good", 8)
	nextToken = strings.Repeat("next", 8)
)

// bearer sends a token with whatever it is, or none.
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
	for _, path := range []string{"/metrics", "/", "/healthz/", "//healthz", "/kinesin.v1.TaskService/Get", "/livez/../metrics"} {
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
	if status, _ := r.get("/"); status != http.StatusNotFound {
		t.Errorf("with a token / is %d", status)
	}
}

func TestTokensAreReplacedWhileItRuns(t *testing.T) {
	path := tokenFile(t, goodToken)
	r := serve(t, Config{AuthTokenFile: path})
	plain := r.http.Transport
	status := func(token string) int {
		r.http.Transport = bearer{token, plain}
		got, _ := r.get("/metrics")
		return got
	}
	if status(goodToken) != http.StatusOK || status(nextToken) != http.StatusUnauthorized {
		t.Fatal("at the start")
	}
	writeFile(t, path, nextToken)
	r.until("replaced", func() bool { return status(nextToken) == http.StatusOK })
	if status(goodToken) != http.StatusUnauthorized {
		t.Error("the old token is still taken")
	}
	writeFile(t, path, "short")
	r.until("told", func() bool { status(nextToken); return strings.Contains(r.logs.String(), "cannot be used") })
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.until("told", func() bool { status(nextToken); return strings.Contains(r.logs.String(), "no such file") })
	if status(nextToken) != http.StatusOK || status(goodToken) != http.StatusUnauthorized {
		t.Error("without a usable file what was in it before does not hold")
	}
	if logs := r.logs.String(); strings.Contains(logs, goodToken) || strings.Contains(logs, nextToken) {
		t.Error("a token is in the log")
	}
}

// authority signs certificates of servers.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert = a.issue(&x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	return a
}

// issue makes a certificate, signed by the authority or, before there is one, by itself.
func (a *authority) issue(template *x509.Certificate, by *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber, _ = rand.Int(rand.Reader, big.NewInt(1<<62))
	template.Subject = pkix.Name{CommonName: "kinesin test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if by == nil {
		parent, by = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// renew writes a certificate for loopback and its key, and returns its serial number.
func (a *authority) renew() (certFile, keyFile, serial string) {
	a.t.Helper()
	key, cert := a.issue(&x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}}, a.key)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	certFile, keyFile = filepath.Join(a.dir, "tls.crt"), filepath.Join(a.dir, "tls.key")
	writeFile(a.t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})))
	writeFile(a.t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return certFile, keyFile, cert.SerialNumber.String()
}

// trust is a client's settings that believe the authority.
func (a *authority) trust() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func TestTLS(t *testing.T) {
	a := newAuthority(t)
	cert, key, serial := a.renew()
	r := serveTLS(t, Config{AuthTokenFile: tokenFile(t, goodToken), TLSCertFile: cert, TLSKeyFile: key}, a)
	r.as(goodToken)
	r.create("mail")
	streams := api.NewStreamTransport()
	streams.TLSClientConfig = a.trust()
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

	served := func() string {
		conn, err := tls.Dial("tcp", r.Addr().String(), a.trust())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	if served() != serial {
		t.Error("another certificate is served")
	}
	_, _, serial = a.renew()
	r.until("renewed", func() bool { return served() == serial })
	writeFile(t, key, "half")
	r.until("told", func() bool { served(); return strings.Contains(r.logs.String(), "cannot be used") })
	if served() != serial {
		t.Error("a broken key took the certificate out of force")
	}

	plain := &http.Client{Transport: api.NewCallTransport()}
	defer plain.CloseIdleConnections()
	response, err := plain.Get("http://" + r.Addr().String() + "/healthz")
	if err != nil || response.StatusCode != http.StatusBadRequest {
		t.Fatalf("plain HTTP at a TLS port: %v, %v", response, err)
	}
	_ = response.Body.Close()
}

func TestTokensThatCannotBeUsed(t *testing.T) {
	a := newAuthority(t)
	cert, key, _ := a.renew()
	other := newAuthority(t)
	_, otherKey, _ := other.renew()
	for _, c := range []struct {
		name   string
		config Config
		words  []string
	}{
		{"no file", Config{AuthTokenFile: filepath.Join(t.TempDir(), "nowhere")}, []string{"nowhere", "no such file"}},
		{"a directory", Config{AuthTokenFile: t.TempDir()}, []string{"no regular file"}},
		{"empty", Config{AuthTokenFile: tokenFile(t)}, []string{"no token", "openssl rand -hex 32"}},
		{"short", Config{AuthTokenFile: tokenFile(t, goodToken, "abc")}, []string{"line 2", "3 characters", "want 32 to 512"}},
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
