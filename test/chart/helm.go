package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// tools is the folder with helm and kubectl. The first time on a machine, they are built.
var tools = sync.OnceValues(func() (string, error) { return loopback.Installed("helm") })

// Program is the path of helm or kubectl. Under -short the test is skipped, as all are that run processes.
func Program(tb testing.TB, name string) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs " + name)
	}
	dir, err := tools()
	if err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// Dir is the chart, seen from the working directory of a package two folders below the root.
var Dir = filepath.Join("..", "..", "deploy", "chart", "kinesin")

// Helm runs helm and returns what it said on stdout, then on stderr. It finds no settings and no plugins of
// the machine.
func Helm(tb testing.TB, args ...string) (out, said string, err error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), Program(tb, "helm"), args...)
	home := tb.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "HELM_DEBUG=false")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// Render is all objects of a release, as YAML. Options are those of `helm template`.
func Render(tb testing.TB, release, namespace string, options ...string) string {
	tb.Helper()
	out, said, err := Helm(tb, append([]string{"template", release, Dir, "--namespace", namespace}, options...)...)
	if err != nil {
		tb.Fatalf("helm template: %v\n%s", err, said)
	}
	return out
}

// Values is the option that names a file of values below the chart's folder ci: "default", "embedded",
// "minimal", "split", "hpa", "keda" or "everything".
func Values(name string) string {
	return "--values=" + filepath.Join(Dir, "ci", name+"-values.yaml")
}
