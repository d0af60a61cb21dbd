package harness

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const module = "github.com/kinesin-io/kinesin"

// binDir is set by Main before tests run, and removed after them.
var binDir string

// parallelDefault is how many tests run at once: they mostly wait for something to happen.
const parallelDefault = "6"

// Main is the TestMain of a package that runs processes. It is to be called as os.Exit(harness.Main(m)).
func Main(m *testing.M) int {
	flag.Parse()
	if !given("test.parallel") {
		_ = flag.Set("test.parallel", parallelDefault)
	}
	dir, err := os.MkdirTemp("", "kinesin-test-")
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	defer func() { _ = os.RemoveAll(dir) }()
	return m.Run()
}

// given reports whether the command line sets the flag.
func given(name string) bool {
	found := false
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// build compiles the binaries once per test program, and only when a test wants one.
var build = sync.OnceValue(func() error { return compile("cmd/kinesin", "test/cmd/faultworker") })

// buildBench compiles the program that measures, which few tests run. kinesin is beside it.
var buildBench = sync.OnceValue(func() error { return compile("cmd/kinesin-bench") })

// buildShift compiles the program that sets the clocks of others, which is not there for every machine.
var buildShift = sync.OnceValue(func() error { return compile("test/cmd/clockshift") })

// buildAdapter compiles the program by which the conformance suite drives the Go SDK.
var buildAdapter = sync.OnceValue(func() error { return compile("test/conformance/adapter") })

func compile(packages ...string) error {
	args := []string{"build", "-o", binDir + string(os.PathSeparator)}
	for _, name := range packages {
		args = append(args, module+"/"+name)
	}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// skipShort is for all that runs processes.
func skipShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs real processes")
	}
}

// program is the path of a program once it is built.
func program(tb testing.TB, name string, built func() error) string {
	tb.Helper()
	skipShort(tb)
	if binDir == "" {
		tb.Fatal("the package's TestMain does not call harness.Main")
	}
	if err := built(); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(binDir, name)
}

// FaultWorker is the path of the fault worker's program, which can also be the command of `kinesin worker`.
func FaultWorker(tb testing.TB) string { tb.Helper(); return program(tb, "faultworker", build) }

// Kinesin is the path of the built kinesin.
func Kinesin(tb testing.TB) string { tb.Helper(); return program(tb, "kinesin", build) }

// Bench runs `kinesin-bench ARGS` to its end.
func Bench(tb testing.TB, env []string, args ...string) Result {
	tb.Helper()
	Kinesin(tb) // which it starts
	return Command{Path: program(tb, "kinesin-bench", buildBench), Args: args, Env: env}.Run(tb)
}

// Clockshift is the path of the program that runs others with a wrong clock.
func Clockshift(tb testing.TB) string { tb.Helper(); return program(tb, "clockshift", buildShift) }

// Adapter is the path of the program by which the conformance suite drives the Go SDK.
func Adapter(tb testing.TB) string { tb.Helper(); return program(tb, "adapter", buildAdapter) }
