package cli_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// prints checks the exit code of a command and what it prints.
func prints(t *testing.T, what string, o outcome, code int, says ...string) {
	t.Helper()
	o.check(t, what, code)
	for _, text := range says {
		if !strings.Contains(o.stdout, text) {
			t.Errorf("%s: %q is not in %s", what, text, o.stdout)
		}
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	data := filepath.Join(t.TempDir(), "data")
	prints(t, "a server that is named", s.do("doctor", "--data", data, "--listen", "127.0.0.1:0"), 0, "the settings", "as this program", "agrees with this machine's", data+" can be created", "a synced write takes")
	prints(t, "the server on its own port", run(t.Context(), nil, "", "doctor", "--data", data, "--listen", strings.TrimPrefix(s.url, "http://")), 0, "as this program")

	foreign, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = foreign.Close() }()
	port := foreign.Addr().String()
	for _, c := range []struct {
		what string
		args []string
		says string
	}{
		{"a port that is taken", []string{"--listen", port}, port + " is in use by another process"},
		{"no server where one is named", []string{"--server", "127.0.0.1:9"}, "no server answers at http://127.0.0.1:9"},
		{"an address beyond loopback", []string{"--listen", "0.0.0.0:7070"}, "set --auth-token-file"},
		{"a file of tokens that is not there", []string{"--auth-token-file", "/no/such/file"}, "/no/such/file"},
		{"a data directory below a file", []string{"--data", "doctor_test.go/data"}, "doctor_test.go"},
	} {
		args := append([]string{"doctor", "--data", data, "--listen", "127.0.0.1:0"}, c.args...)
		prints(t, c.what, run(t.Context(), nil, "", args...), 1, "wrong", c.says)
		prints(t, c.what, run(t.Context(), nil, "", append(args, "-o", "json")...), 1, `"ok":false`)
	}
}

func TestConfigViewSaysWhereSettingsComeFrom(t *testing.T) {
	t.Parallel()
	o := run(t.Context(), []string{"KINESIN_LISTEN=127.0.0.1:2"}, "", "config", "view", "-o", "json")
	prints(t, "config view", o, 0, `{"name":"listen","value":"127.0.0.1:2","from":"KINESIN_LISTEN"}`, `"name":"data","value":"./kinesin-data","from":"default"`)
	run(t.Context(), []string{"KINESIN_WINDOW=soon"}, "", "config", "view").check(t, "a value that is refused", 2, "KINESIN_WINDOW")
}
