package openapi

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

const root = "../.."

// python returns an interpreter with what tools/openapi pins.
var python = sync.OnceValues(func() (string, error) {
	install := exec.Command(root + "/tools/openapi/install")
	install.Stderr = os.Stderr
	path, err := install.Output()
	return strings.TrimSpace(string(path)), err
})

func needPython(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("installs Python packages and runs real processes")
	}
	path, err := python()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// run runs a command and returns its output. A failure fails the test.
func run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), args[0], args[1:]...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestTheDocumentIsValid(t *testing.T) {
	interpreter := needPython(t)
	server := harness.StartServer(t, harness.ServerOptions{})
	response, err := http.Get(server.URL + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "openapi.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(t, "", interpreter, "-m", "openapi_spec_validator", "--schema", "3.1", path); !strings.Contains(out, "OK") {
		t.Error(out)
	}
	// The validator does find a mistake.
	broken := strings.Replace(string(text), `"responses":`, `"response":`, 2)
	if err := os.WriteFile(path, []byte(broken), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), interpreter, "-m", "openapi_spec_validator", path).CombinedOutput(); err == nil {
		t.Errorf("a broken document is valid: %s", out)
	}
}

// checks are what schemathesis looks for in each answer.
const checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance," +
	"response_schema_conformance,unsupported_method,allow_header_conformance,negative_data_rejection"

// TestSchemathesis tries each operation with generated requests, good and bad ones: short ones here, many in
// `make test/openapi`.
func TestSchemathesis(t *testing.T) {
	interpreter := needPython(t)
	// The same requests each time, so that a run that fails does so for a change of this tree; the long form
	// draws others. Waits would wait for half a minute.
	some := []string{"--max-examples", "5", "--exclude-path-regex", "/wait$", "--seed", "1"}
	if harness.Long() {
		some = []string{"--max-examples", "100"}
	}
	server := harness.StartServer(t, harness.ServerOptions{})
	lambda := post(t, server.URL+"/v1/lambdas", `{"name":"fuzzed"}`)
	id := between(post(t, server.URL+"/v1/lambdas/fuzzed/tasks", `{"delay":"1h","key":"k"}`), `"id":"`, `"`)
	t.Logf("%s, task %s", lambda, id)

	settings, err := os.ReadFile(root + "/tools/openapi/schemathesis.toml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// Half of the requests are about what is there, and stays there: otherwise nearly all of them get 404.
	text := fmt.Sprintf("%s\n[[operations]]\ninclude-operation-id = \"deleteLambda\"\nenabled = false\n\n[parameters]\n\"path.lambda\" = \"fuzzed\"\n\"path.name\" = \"fuzzed\"\n\"path.id\" = %q\n\"path.key\" = \"k\"\n", settings, id)
	for name, text := range map[string]string{"anything.toml": string(settings), "there.toml": text} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out := run(t, dir, append([]string{
			interpreter, "-m", "schemathesis.cli", "--config-file", filepath.Join(dir, name), "run", server.URL + "/v1/openapi.json",
			"--checks", checks, "--continue-on-failure", "--request-timeout", "90", "--warnings", "off", "--generation-database", "none",
		}, some...)...)
		t.Logf("%s: %s", name, out[max(0, strings.LastIndex(out, "SUMMARY")):])
	}
}

func post(t *testing.T, url, body string) string {
	t.Helper()
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s: %v", response.Status, text, err)
	}
	return string(text)
}

// between returns the part of a text behind one mark and before another.
func between(text, from, to string) string {
	_, rest, _ := strings.Cut(text, from)
	part, _, _ := strings.Cut(rest, to)
	return part
}

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
