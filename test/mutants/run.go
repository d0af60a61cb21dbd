package mutants

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Status is what became of a mutant.
type Status uint8

// The statuses. Only Caught passes.
const (
	Caught   Status = iota + 1
	Survived        // the tests pass with it
	Broken          // it does not apply, does not compile, or runs out of time without being marked Hangs
)

// Result is a mutant's status and how long its tests ran, without their compilation.
type Result struct {
	Status Status
	By     string // the test that failed
	Took   time.Duration
	Why    error // Broken: what is wrong
}

// Runner runs mutants of the module at Root. It is safe for concurrent use.
type Runner struct {
	Root    string        // absolute path of the repository
	Timeout time.Duration // of the tests of one package
}

// Run applies a mutant and runs its tests.
func (r *Runner) Run(ctx context.Context, m *Mutant) Result {
	changed, err := m.Apply(r.Root)
	if err != nil {
		return Result{Status: Broken, Why: err}
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return Result{Status: Broken, Why: err}
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(r.Root, dir, changed)
	if err != nil {
		return Result{Status: Broken, Why: err}
	}
	return r.test(ctx, m, dir, overlay)
}

// Baseline runs tests with no mutant and returns what is wrong with each: it fails, or there is no such test.
// They are of the same packages, which are compiled once.
func (r *Runner) Baseline(ctx context.Context, tests []Test) []error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return []error{err}
	}
	defer os.RemoveAll(dir)
	var errs []error
	for _, pkg := range tests[0].Packages {
		binary, err := r.compile(ctx, tests[0], pkg, dir)
		if err != nil {
			return append(errs, err)
		}
		for _, t := range tests {
			switch got := r.runBinary(ctx, t, binary, filepath.Join(r.Root, pkg), 0); got.Status {
			case Survived:
			case Caught:
				errs = append(errs, fmt.Errorf("%s fails without a mutant: %s", t, got.By))
			case Broken:
				errs = append(errs, fmt.Errorf("%s without a mutant: %w", t, got.Why))
			}
		}
	}
	return errs
}

// test builds and runs the tests of each package until one fails.
func (r *Runner) test(ctx context.Context, m *Mutant, dir, overlay string) Result {
	total := Result{Status: Survived}
	for _, pkg := range m.Test.Packages {
		binary, err := r.compile(ctx, m.Test, pkg, dir, "-overlay="+overlay)
		if err != nil {
			return Result{Status: Broken, Why: err}
		}
		got := r.runBinary(ctx, m.Test, binary, filepath.Join(r.Root, pkg), m.Hangs)
		got.Took += total.Took
		if got.Status != Survived {
			return got
		}
		total = got
	}
	return total
}

func (r *Runner) compile(ctx context.Context, t Test, pkg, dir string, flags ...string) (binary string, err error) {
	binary = filepath.Join(dir, "test.bin")
	args := append([]string{"test", "-c", "-ldflags=-s -w", "-o", binary}, append(t.buildFlags(), flags...)...)
	compile := exec.CommandContext(ctx, "go", append(args, pkg)...)
	compile.Dir = r.Root
	if out, err := compile.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w: %s", err, bytes.TrimSpace(out))
	}
	return binary, nil
}

// outOfTime begins the message of the testing package when a test took longer than -test.timeout.
const outOfTime = "panic: test timed out after"

func (r *Runner) runBinary(ctx context.Context, t Test, binary, dir string, hangs time.Duration) Result {
	args := []string{"-test.failfast", "-test.paniconexit0", "-test.run=" + t.Run, "-test.timeout=" + cmp.Or(hangs, r.Timeout).String()}
	if t.Short {
		args = append(args, "-test.short")
	}
	if t.CPU != "" {
		args = append(args, "-test.cpu="+t.CPU)
	}
	run := exec.CommandContext(ctx, binary, args...)
	run.Dir = dir
	began := time.Now()
	out, err := run.CombinedOutput()
	got := Result{Status: Survived, Took: time.Since(began)}
	switch exit := (*exec.ExitError)(nil); {
	case ctx.Err() != nil:
		got.Status, got.Why = Broken, ctx.Err()
	case err == nil && strings.Contains(string(out), "no tests to run"):
		got.Status, got.Why = Broken, fmt.Errorf("no test of %s matches -run %s", dir, t.Run)
	case err == nil:
	case !errors.As(err, &exit):
		got.Status, got.Why = Broken, err
	case strings.Contains(string(out), outOfTime) && hangs == 0:
		got.Status, got.Why = Broken, fmt.Errorf("no end after %s: give it a `Hangs: 5s` if that is what it does", r.Timeout)
	default:
		got.Status, got.By = Caught, culprit(string(out))
	}
	return got
}

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

// culprit names the test that failed.
func culprit(out string) string {
	switch found := failed.FindStringSubmatch(out); {
	case found != nil:
		return found[1]
	case strings.Contains(out, outOfTime):
		return "out of time"
	case strings.Contains(out, "panic: "), strings.Contains(out, "fatal error: "):
		return "panic"
	default:
		return "exit status"
	}
}
