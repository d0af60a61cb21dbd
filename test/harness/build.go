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

const (
	module    = "github.com/kinesin-io/kinesin"
	kinesin   = "kinesin"
	workerBin = "faultworker"
)

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
var build = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", binDir+string(os.PathSeparator), module+"/cmd/kinesin", module+"/test/cmd/faultworker")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

// skipShort is for all that runs processes.
func skipShort(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip("runs real processes")
	}
}

// buildShift compiles the program that sets the clocks of others, which is not there for every machine.
var buildShift = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-o", binDir+string(os.PathSeparator), module+"/test/cmd/clockshift")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
})

// binary is the path of a built program.
func binary(tb testing.TB, name string) string {
	tb.Helper()
	skipShort(tb)
	if binDir == "" {
		tb.Fatal("the package's TestMain does not call harness.Main")
	}
	if err := build(); err != nil {
		tb.Fatal(err)
	}
	return filepath.Join(binDir, name)
}

// FaultWorker is the path of the fault worker's program, which can also be the command of `kinesin worker`.
func FaultWorker(tb testing.TB) string { tb.Helper(); return binary(tb, workerBin) }

// Kinesin is the path of the built kinesin.
func Kinesin(tb testing.TB) string { tb.Helper(); return binary(tb, kinesin) }
