package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/test/harness"
)

// Tokens have 64 characters here, as those of `openssl rand -hex 32`.
var (
	tokenA = strings.Repeat("0123456789abcdef", 4)
	tokenB = strings.Repeat("fedcba9876543210", 4)
)

func writeFile(t *testing.T, path string, lines ...string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newFile(t *testing.T, lines ...string) string {
	t.Helper()
	return writeFile(t, filepath.Join(t.TempDir(), "file"), lines...)
}

// with runs a client command with variables.
func with(t *testing.T, env []string, args ...string) harness.Result {
	t.Helper()
	return harness.Command{Args: args, Env: env}.Run(t)
}

// A server that other machines reach: whoever has a token may do everything, whoever has none may ask how it
// is.
func TestBeyondLoopbackWithTokens(t *testing.T) {
	t.Parallel()
	s := harness.StartServer(t, harness.ServerOptions{
		Host: "0.0.0.0", Args: []string{"--auth-token-file", newFile(t, "# of workers", tokenB, tokenA)},
	})
	for _, c := range [][]string{{"lambda", "list"}, {"schedule", "work"}, {"get", "k1"}, {"list", "work"}, {"inbound", "key"}} {
		s.Run(c...).Refused(t, 1, "this call has no token", "KINESIN_TOKEN_FILE")
		s.Run(append(c, "--token-file", newFile(t, strings.ToUpper(tokenA)))...).Refused(t, 1, "does not accept the token")
	}
	harness.Bench(t, []string{"KINESIN_SERVER=" + s.URL}, "immediate", "-n", "1").Refused(t, 1, "this call has no token", "KINESIN_TOKEN_FILE")
	for _, lambda := range []string{"work", "more"} {
		s.Run("lambda", "create", lambda, "--token-file", newFile(t, tokenA)).Must(t)
	}
	own := newFile(t, tokenB)
	env := []string{"KINESIN_SERVER=" + s.URL, "KINESIN_TOKEN_FILE=" + own}
	out := filepath.Join(t.TempDir(), "out")
	harness.Start(t, harness.Command{
		Env:  append(env, "OUT="+out, "OWN="+own, "PROGRAM="+harness.Kinesin(t)),
		Args: []string{"worker", "--lambda", "work,more", "--", "sh", "-c", `case $KINESIN_LAMBDA in work) "$PROGRAM" schedule more --token-file "$OWN" >"$OUT.id";; *) env >"$OUT";; esac`},
	})
	id := with(t, env, "schedule", "work").Must(t)
	with(t, env, "wait", id, "--timeout", "20s").Must(t)
	second, err := os.ReadFile(out + ".id")
	if err != nil {
		t.Fatal(err)
	}
	with(t, env, "wait", strings.TrimSpace(string(second)), "--timeout", "20s").Must(t)
	seen, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(seen), "KINESIN_SERVER="+s.URL) || strings.Contains(string(seen), "KINESIN_TOKEN") || strings.Contains(string(seen), tokenB) {
		t.Errorf("the command of a worker has %s, %v", seen, err)
	}
	for path, want := range map[string]int{"/livez": http.StatusOK, "/readyz": http.StatusOK, "/healthz": http.StatusOK, "/metrics": http.StatusUnauthorized, "/v1/stats": http.StatusUnauthorized} {
		if status, body := s.Fetch(path); status != want || status == http.StatusOK && len(strings.Fields(body)) != 1 {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, body := s.Fetch("/"); status != http.StatusOK || !strings.Contains(body, "<title>Sign in") || strings.Contains(body, "work") {
		t.Errorf("the console without a token: %d %q", status, body)
	}
	if bench := harness.Bench(t, env, "immediate", "-n", "10", "-o", "json"); !strings.Contains(bench.Must(t), `"server_cpu_seconds_per_1000"`) {
		t.Errorf("%+v", bench)
	}
	if strings.Contains(s.Stdout()+s.Stderr(), tokenA[:16]) {
		t.Error("a token is in what the server says")
	}
}

// A worker that has no token ends and says why; one whose token is replaced together with the server's goes
// on.
func TestWorkersAndTokens(t *testing.T) {
	path := newFile(t, tokenA)
	s := start(t, "--auth-token-file", path)
	s.Run("lambda", "create", "work", "--token-file", path).Must(t)
	with(t, nil, "worker", "--server", s.URL, "--lambda", "work", "--", "true").Refused(t, 1, "this call has no token")
	with(t, nil, "worker", "--server", s.URL, "--lambda", "work", "--token-file", newFile(t, tokenB), "--", "true").Refused(t, 1, "does not accept the token")

	w := harness.Start(t, harness.Command{
		Env:  []string{"KINESIN_SERVER=" + s.URL, "KINESIN_TOKEN_FILE=" + path},
		Args: []string{"worker", "--lambda", "work", "--lease", "3s", "--", "true"},
	})
	runs := func() {
		t.Helper()
		id := s.Run("schedule", "work", "--token-file", path).Must(t)
		s.Run("wait", id, "--timeout", "20s", "--token-file", path).Must(t)
	}
	runs()
	old := newFile(t, tokenA)
	writeFile(t, path, tokenA, tokenB) // the servers take both
	eventually(t, "the new token is taken", func() bool { return s.Run("lambda", "list", "--token-file", newFile(t, tokenB)).Code == 0 })
	writeFile(t, path, tokenB, tokenA) // clients send the new one
	writeFile(t, path, tokenB)         // the old one is over
	eventually(t, "the old token is refused", func() bool { return s.Run("lambda", "list", "--token-file", old).Code == 1 })
	time.Sleep(4 * time.Second) // longer than the worker's lease
	runs()
	if !w.Alive() || strings.Contains(w.Stderr(), "lease lost") {
		t.Errorf("the worker with the replaced token: %s", w.Stderr())
	}
}

// Mistakes in tokens and certificates are reported at the start.
func TestDoorsThatDoNotOpen(t *testing.T) {
	t.Parallel()
	a, other := tlstest.New(t), tlstest.New(t)
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args  []string
		texts []string
	}{
		{[]string{"--listen", "0.0.0.0:0"}, []string{"beyond loopback", "--auth-token-file"}},
		{[]string{"--listen", "0.0.0.0:0", "--tls-cert-file", a.CertFile, "--tls-key-file", a.KeyFile}, []string{"beyond loopback", "--auth-token-file"}},
		{[]string{"--auth-token-file", missing}, []string{missing, "no such file"}},
		{[]string{"--auth-token-file", newFile(t, tokenA, "changeme")}, []string{"line 2", "8 characters", "32 to 8192"}},
		{[]string{"--auth-token-file", newFile(t)}, []string{"no token"}},
		{[]string{"--auth-token-file", newFile(t, strings.Repeat(tokenA+"\n", 65))}, []string{"more than 64 tokens"}},
		{[]string{"--auth-token-file", newFile(t, strings.Repeat("x", 65<<10))}, []string{"longer than 65536 bytes"}},
		{[]string{"--auth-token-file", t.TempDir()}, []string{"no regular file"}},
		{[]string{"--tls-cert-file", a.CertFile}, []string{"--tls-key-file"}},
		{[]string{"--tls-cert-file", a.CertFile, "--tls-key-file", other.KeyFile}, []string{a.CertFile, "does not match"}},
		{[]string{"--tls-cert-file", a.CertFile, "--tls-key-file", missing}, []string{missing, "no such file"}},
		{[]string{"--membership", "kubernetes"}, []string{"--store dynamodb"}},
		{[]string{"--membership", "static", "--members", "a,b", "--member-name", "c", "--store", "dynamodb", "--queue", "sqs", "--aws-prefix", "p"}, []string{"one of a, b"}},
	} {
		with(t, nil, append([]string{"serve", "--data", t.TempDir()}, c.args...)...).Refused(t, 2, c.texts...)
	}
}

// TLS: with the authority's certificate everything works, and whoever comes without is told what to change.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := tlstest.New(t)
	token := newFile(t, tokenA)
	p := harness.Start(t, harness.Command{
		Args: []string{
			"serve", "--data", t.TempDir(), "--listen", "127.0.0.1:0", "-o", "json",
			"--auth-token-file", token, "--tls-cert-file", a.CertFile, "--tls-key-file", a.KeyFile,
		},
	})
	var where struct {
		URL   string `json:"url"`
		Livez string `json:"livez"`
	}
	eventually(t, "the server says where it is", func() bool { return strings.Contains(p.Stdout(), "\n") })
	if err := json.Unmarshal([]byte(p.Stdout()), &where); err != nil || !strings.HasPrefix(where.URL, "https://127.0.0.1:") {
		t.Fatal(err, p.Stdout())
	}
	run := func(args ...string) harness.Result { return harness.Run(t, append(args, "--server", where.URL)...) }
	env := []string{"KINESIN_SERVER=" + where.URL, "KINESIN_TOKEN_FILE=" + token, "KINESIN_TLS_CA_FILE=" + a.File}
	with(t, env, "lambda", "create", "work").Must(t)
	harness.Start(t, harness.Command{Env: env, Args: []string{"worker", "--lambda", "work", "--", "true"}})
	id := with(t, env, "schedule", "work", "--in", "1s").Must(t)
	with(t, env, "wait", id, "--timeout", "20s").Must(t)

	run("lambda", "list", "--token-file", token).Refused(t, 1, "certificate is not trusted", "--tls-ca-file")
	run("lambda", "list", "--token-file", token, "--tls-ca-file", tlstest.New(t).File).Refused(t, 1, "certificate is not trusted")
	run("lambda", "list", "--token-file", token, "--tls-ca-file", token).Refused(t, 2, "holds none in PEM")
	with(t, env, "lambda", "list", "--server", strings.Replace(where.URL, "https", "http", 1)).Refused(t, 1, "speaks TLS", "https://")
	with(t, env, "worker", "--lambda", "work", "--server", strings.Replace(where.URL, "https", "http", 1), "--", "true").Refused(t, 1, "speaks TLS", "https://")
	plain := harness.StartServer(t, harness.ServerOptions{})
	with(t, env, "lambda", "list", "--server", strings.Replace(plain.URL, "http", "https", 1)).Refused(t, 1, "speaks no TLS", "http://")

	client := &http.Client{Transport: &http.Transport{TLSClientConfig: a.Trust(), DisableKeepAlives: true}}
	serial := func() string {
		response, err := client.Get(where.Livez)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		if body, err := io.ReadAll(response.Body); err != nil || string(body) != "ok\n" {
			t.Errorf("/livez: %q, %v", body, err)
		}
		return response.TLS.PeerCertificates[0].SerialNumber.String()
	}
	before, renewed := serial(), a.Renew()
	eventually(t, "the certificate is renewed", func() bool { return serial() == renewed })
	if before == renewed {
		t.Error("there was nothing to renew")
	}
	if _, err := tls.Dial("tcp", strings.TrimPrefix(where.URL, "https://"), &tls.Config{RootCAs: a.Trust().RootCAs, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

// On Kubernetes what the pod lacks is said before anything else, and lasts.
func TestPodsThatCannotJoin(t *testing.T) {
	t.Parallel()
	serve := []string{"serve", "--store", "dynamodb", "--queue", "sqs", "--aws-prefix", "p", "--listen", "127.0.0.1:0", "--membership", "kubernetes"}
	none := []string{"HOME=" + t.TempDir(), "KUBECONFIG=", "KUBERNETES_SERVICE_HOST=", "POD_NAME=", "POD_NAMESPACE="}
	with(t, none, serve...).Refused(t, 3, "downward API", "neither is set")
	with(t, append(none, "POD_NAME=a"), serve...).Refused(t, 3, "POD_NAMESPACE is not set")
	with(t, append(none, "POD_NAME=a", "POD_NAMESPACE=b"), serve...).Refused(t, 3, "KUBECONFIG")
	with(t, append(none, "POD_NAME=a", "POD_NAMESPACE=b", "KUBECONFIG="+newFile(t, "nonsense: {")), serve...).Refused(t, 3, "no way to the Kubernetes API server")
}
