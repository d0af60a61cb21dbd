package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/tlstest"
)

var secret = strings.Repeat("secret", 6)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func clients(t *testing.T, c Config) Clients {
	t.Helper()
	c.Clock = clock.Real()
	made, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.CloseIdle)
	return made
}

// get returns the body of a response.
func get(t *testing.T, h *http.Client, url string) (string, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := h.Do(request)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(response.Body)
	return string(body), errors.Join(err, response.Body.Close())
}

// echo answers with the Authorization header of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, r.Header.Get("Authorization"))
}

func TestTheTokenGoesToTheServerAndNowhereElse(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(echo))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
			return
		}
		echo(w, r)
	}))
	defer server.Close()
	path := writeFile(t, "token", "# of the server\n"+secret+"\nother"+secret)
	for name, c := range map[string]Clients{
		"own":     clients(t, Config{Server: server.URL, TokenFile: path}),
		"given":   clients(t, Config{Server: server.URL, TokenFile: path, HTTP: server.Client()}),
		"default": clients(t, Config{Server: server.URL, TokenFile: path, HTTP: &http.Client{}}),
	} {
		for _, h := range []*http.Client{c.Calls, c.Beats} {
			if body, err := get(t, h, server.URL); err != nil || body != "Bearer "+secret {
				t.Errorf("%s: %q, %v", name, body, err)
			}
			if body, err := get(t, h, server.URL+"/away"); err != nil || body != "" {
				t.Errorf("%s: elsewhere got %q, %v", name, body, err)
			}
		}
	}
	if body, err := get(t, clients(t, Config{Server: server.URL}).Calls, server.URL); err != nil || body != "" {
		t.Errorf("without a file: %q, %v", body, err)
	}
}

func TestTLSWithAnAuthorityOfItsOwn(t *testing.T) {
	a := tlstest.New(t)
	pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = api.NewServer(http.HandlerFunc(echo))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	c := clients(t, Config{Server: server.URL, CAFile: a.File, TokenFile: writeFile(t, "token", secret)})
	for _, h := range []*http.Client{c.Calls, c.Beats, c.Streams} {
		if body, err := get(t, h, server.URL); err != nil || body != "Bearer "+secret {
			t.Errorf("%q, %v", body, err)
		}
	}
	wantInvalid := func(server string, words ...string) {
		t.Helper()
		c := clients(t, Config{Server: server})
		_, err := get(t, c.Calls, server)
		if own, found := errors.AsType[*api.Error](err); !found || !errors.Is(own, api.ErrInvalid) {
			t.Errorf("%s: %v", server, err)
			return
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: %q does not say %q", server, err, word)
			}
		}
	}
	wantInvalid(server.URL, "not trusted", "--tls-ca-file")
	wantInvalid(strings.Replace(server.URL, "https", "http", 1), "it speaks TLS", "want https://")
	plain := httptest.NewUnstartedServer(nil)
	plain.Config = api.NewServer(http.HandlerFunc(echo))
	plain.Start()
	defer plain.Close()
	wantInvalid(strings.Replace(plain.URL, "http", "https", 1), "no TLS", "want http://")
}

func TestOtherBadRequestsAreLeftAlone(t *testing.T) {
	for _, text := range []string{"", "no", tlsWanted[1:], strings.Repeat("long ", 100)} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = nil
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, text)
		}))
		body, err := get(t, clients(t, Config{Server: server.URL}).Calls, server.URL)
		if err != nil || body != text {
			t.Errorf("%q, %v", body, err)
		}
		server.Close()
	}
}

func TestNobodyThere(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(echo))
	server.Close()
	_, err := get(t, clients(t, Config{Server: server.URL}).Calls, server.URL)
	if _, found := errors.AsType[*api.Error](err); err == nil || found {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	response, err := clients(t, Config{Server: server.URL}).Calls.Do(request)
	if err == nil {
		_ = response.Body.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestConfigThatIsRefused(t *testing.T) {
	for _, c := range []struct {
		word   string
		config Config
	}{
		{"no such file", Config{TokenFile: "/nowhere/token"}},
		{"no token", Config{TokenFile: writeFile(t, "empty", "\n")}},
		{"31 characters", Config{TokenFile: writeFile(t, "short", secret[:31])}},
		{"no such file", Config{CAFile: "/nowhere/ca"}},
		{"holds none", Config{CAFile: writeFile(t, "ca", "hello")}},
		{"both a file of certificates", Config{CAFile: writeFile(t, "ca", "hello"), HTTP: http.DefaultClient}},
	} {
		c.config.Server, c.config.Clock = "http://127.0.0.1:7070", clock.Real()
		if _, err := New(c.config); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", c.word, err)
		}
	}
}
