package httptarget_test

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/target/httptarget"
	"github.com/kinesin-io/kinesin/task"
)

// written writes a file and returns its path.
func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A host gets the certificate and the newest token that are bound to it, over TLS alone, and no other host does.
func TestAsWhomAHostIsCalled(t *testing.T) {
	t.Parallel()
	authority := tlstest.New(t)
	pair, err := tls.LoadX509KeyPair(authority.CertFile, authority.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		if len(r.TLS.PeerCertificates) == 0 {
			got = append(got, "no certificate")
		}
	}))
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	host := strings.TrimPrefix(receiver.URL, "https://")
	token := written(t, "token", "first\n")
	list, err := json.Marshal([]httptarget.Identity{{Host: host, TokenFile: token, CertFile: authority.CertFile, KeyFile: authority.KeyFile, CAFile: authority.File}})
	if err != nil {
		t.Fatal(err)
	}
	identities, err := httptarget.ReadIdentities(written(t, "identities", string(list)))
	if err != nil {
		t.Fatal(err)
	}
	client := httptarget.NewClient(httptarget.Config{Clock: clock.Real(), Identities: identities})
	t.Cleanup(client.Close)
	call := func(url string) task.Outcome {
		r, err := client.Runner(task.Target{URL: url, Headers: map[string]string{"authorization": "of the lambda"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Outcome(t.Context(), attempt()).Kind
	}
	first := call("https://" + host)
	if err := os.WriteFile(token, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	second := call("https://" + strings.ToUpper(host) + "/path")
	if first != task.OutcomeSuccess || second != task.OutcomeSuccess || strings.Join(got, ",") != "Bearer first,Bearer second" {
		t.Errorf("%s, %s: %q", first, second, got)
	}
	if kind := call("http://" + host); kind != task.OutcomeRetriable || len(got) != 2 {
		t.Errorf("without TLS: %s, %q", kind, got)
	}
	other := strings.Replace(host, "127.0.0.1", "localhost", 1)
	if kind := call("https://" + other); kind != task.OutcomeRetriable { // its authority is bound to the other name
		t.Errorf("another host: %s", kind)
	}
}

func TestIdentitiesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	empty := written(t, "empty", " \n")
	for text, want := range map[string]string{
		`{}`:                                          "want a list such as",
		`[{"host":"a","tokn":"b"}]`:                   "tokn",
		`[{"host":""}]`:                               "want a host such as",
		`[{"host":"a/b"}]`:                            "want a host such as",
		`[{"host":"u@a"}]`:                            "want a host such as",
		`[{"host":"A"},{"host":"a"}]`:                 "twice",
		`[{"host":"a","cert_file":"x"}]`:              "both or none",
		`[{"host":"a","token_file":"/nowhere"}]`:      "no such file",
		`[{"host":"a","token_file":"` + empty + `"}]`: "want one token",
		`[{"host":"a","ca_file":"` + empty + `"}]`:    "in PEM",
	} {
		if _, err := httptarget.ReadIdentities(written(t, "identities", text)); !errors.Is(err, httptarget.ErrIdentities) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := httptarget.ReadIdentities("/nowhere"); !errors.Is(err, httptarget.ErrIdentities) {
		t.Error(err)
	}
}
