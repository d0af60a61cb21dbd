//go:build linux || darwin

package executor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// TestMain lets the test binary act as its own guard, and as a worker that is killed.
func TestMain(m *testing.M) {
	switch os.Getenv("EXECUTOR_TEST_ROLE") {
	case "guard":
		if executor.RunGuard(os.Stdin) != nil {
			os.Exit(1)
		}
	case "worker":
		runWorker()
	default:
		os.Exit(m.Run())
	}
}

// runWorker runs one command under a guard, as a worker does.
func runWorker() {
	g := must(startGuard())
	lease := must(time.ParseDuration(os.Getenv("EXECUTOR_TEST_LEASE")))
	if lease > 0 {
		_ = g.HoldsFor(lease)
	}
	e := must(executor.New(executor.Config{Command: []string{"sh", "-c", os.Getenv("EXECUTOR_TEST_SCRIPT")}, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Guard: g}))
	_ = e.Run(context.Background(), &executor.Task{})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func startGuard() (*executor.Guard, error) {
	if err := os.Setenv("EXECUTOR_TEST_ROLE", "guard"); err != nil {
		return nil, err
	}
	defer os.Unsetenv("EXECUTOR_TEST_ROLE")
	return executor.StartGuard(os.Stderr, must(os.Executable()))
}

var errAtOnce = errors.New("at once")

type harness struct {
	*executor.Executor
	stdout, stderr bytes.Buffer
}

func sh(t *testing.T, script string) *harness {
	t.Helper()
	h := &harness{}
	var err error
	h.Executor, err = executor.New(executor.Config{
		Command: []string{"sh", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), "KINESIN_DATA=secret", "OTHER=kept"},
		Ours: []string{"KINESIN_SERVER=http://127.0.0.1:7070"}, Stdout: &h.stdout, Stderr: &h.stderr, TermToKill: 200 * time.Millisecond,
		AtOnce: func(cause error) bool { return errors.Is(cause, errAtOnce) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCommandSeesItsTask(t *testing.T) {
	t.Parallel()
	h := sh(t, `cat; echo; env | grep -E '^(KINESIN|OTHER)' | sort`)
	err := h.Run(t.Context(), &executor.Task{
		Task: sdk.Task[[]byte]{
			ID: "k1abc", Lambda: "greet", Priority: "high", Collection: "c", Key: "k",
			Attempt: 3, Failures: 2, Due: time.UnixMilli(1234), Payload: []byte("Ada"),
			Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Tags: map[string]string{"tenant": "acme", "a.b": ""},
		},
		Worker: "w", Deadline: time.UnixMilli(5678),
	})
	want := `Ada
KINESIN_ATTEMPT=3
KINESIN_COLLECTION=c
KINESIN_DEADLINE=1970-01-01T00:00:05.678Z
KINESIN_DUE=1970-01-01T00:00:01.234Z
KINESIN_FAILURES=2
KINESIN_KEY=k
KINESIN_LAMBDA=greet
KINESIN_PRIORITY=high
KINESIN_SERVER=http://127.0.0.1:7070
KINESIN_TAGS={"a.b":"","tenant":"acme"}
KINESIN_TASK_ID=k1abc
KINESIN_TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
KINESIN_WORKER=w
OTHER=kept
`
	if err != nil || h.stdout.String() != want {
		t.Errorf("error %v, output:\n%swant:\n%s", err, h.stdout.String(), want)
	}
}

// A command gets no setting of its worker, which may name the file of its token; and if variables are named,
// those alone.
func TestWhatACommandInherits(t *testing.T) {
	t.Parallel()
	env := []string{"PATH=" + os.Getenv("PATH"), "KINESIN_TOKEN_FILE=/secret", "KINESIN_DATA=d", "A=1", "AB=2", "KINESIN_KEY=mine", "A=3"}
	for _, c := range []struct {
		only []string
		want string
	}{
		{nil, "A=3 AB=2 KINESIN_KEY=k KINESIN_SERVER=s"},
		{[]string{}, "KINESIN_KEY=k KINESIN_SERVER=s"},
		{[]string{"A", "NOT_SET", "KINESIN_KEY"}, "A=3 KINESIN_KEY=k KINESIN_SERVER=s"},
		{[]string{"KINESIN_TOKEN_FILE"}, "KINESIN_KEY=k KINESIN_SERVER=s KINESIN_TOKEN_FILE=/secret"},
	} {
		var out bytes.Buffer
		e, err := executor.New(executor.Config{
			Command: []string{"env"}, Env: env, Only: c.only, Ours: []string{"KINESIN_SERVER=s"}, Stdout: &out, Stderr: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Run(t.Context(), &executor.Task{Task: sdk.Task[[]byte]{Key: "k"}}); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSpace(line)
			if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "A") || name == "KINESIN_KEY" || name == "KINESIN_SERVER" || name == "KINESIN_TOKEN_FILE" || name == "KINESIN_DATA" {
				got = append(got, line)
			}
		}
		slices.Sort(got)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("only %q: %s, want %s", c.only, text, c.want)
		}
	}
}

func TestCommandMayIgnoreItsPayload(t *testing.T) {
	t.Parallel()
	if err := sh(t, "exit 0").Run(t.Context(), &executor.Task{Task: sdk.Task[[]byte]{Payload: make([]byte, 1<<20)}}); err != nil {
		t.Error(err)
	}
}

func TestHowACommandEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		want   executor.ExitError
	}{
		{"head -c 1024 /dev/zero | tr '\\0' x >&2; kill -27 $$", executor.ExitError{Code: -1, Signal: syscall.SIGPROF, Tail: strings.Repeat("x", 1024)}},
		{"echo why >&2; exit 65", executor.ExitError{Code: 65, Tail: "why"}},
		{"exit 7", executor.ExitError{Code: 7}},
		{"kill -9 $$", executor.ExitError{Code: -1, Signal: syscall.SIGKILL}},
		{"i=0; while [ $i -lt 1000 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 1", executor.ExitError{Code: 1, Tail: strings.TrimSpace(strings.Repeat("0123456789\n", 1000)[11000-1024:])}},
	} {
		err := sh(t, c.script).Run(t.Context(), &executor.Task{})
		if got, found := errors.AsType[*executor.ExitError](err); !found || *got != c.want {
			t.Errorf("%s: %+v, want %+v", c.script, got, c.want)
		}
		if text := err.Error(); task.ErrorText(text) != text {
			t.Errorf("%s: of %q only %q is kept", c.script, text, task.ErrorText(text))
		}
	}
}

func TestCommandThatCannotRun(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"no-such-command-here", "./no/such/file", file} {
		if _, err := executor.New(executor.Config{Command: []string{command}}); err == nil || !strings.Contains(err.Error(), command) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// The grandchild writes its number, so that the test can look whether it lives.
const family = `trap '' TERM; sleep 1000 & echo $! > "$PIDFILE"; wait; wait`

func TestWholeGroupDies(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"asked first": context.Canceled, "at once": errAtOnce} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pidFile := filepath.Join(t.TempDir(), "pid")
			h := sh(t, strings.ReplaceAll(family, "$PIDFILE", pidFile))
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { done <- h.Run(ctx, &executor.Task{}) }()
			pid := readPID(t, pidFile)
			cancel(cause)
			err := <-done
			if e, found := errors.AsType[*executor.ExitError](err); !found || e.Signal != syscall.SIGKILL {
				t.Errorf("ended with %v", err)
			}
			wantDead(t, pid)
		})
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	t.Parallel()
	pidFile := filepath.Join(t.TempDir(), "pid")
	if err := sh(t, "sleep 1000 & echo $! > "+pidFile).Run(t.Context(), &executor.Task{}); err != nil {
		t.Error(err)
	}
	wantDead(t, readPID(t, pidFile))
}

func TestGuardKillsWhatAWorkerLeaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
		lease  time.Duration
	}{
		{"worker killed", syscall.SIGKILL, time.Hour},
		{"worker stopped past its lease", syscall.SIGSTOP, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pidFile := filepath.Join(t.TempDir(), "pid")
			worker := exec.Command(must(os.Executable()))
			worker.Env = append(os.Environ(), "EXECUTOR_TEST_ROLE=worker", "PIDFILE="+pidFile,
				"EXECUTOR_TEST_SCRIPT="+family, "EXECUTOR_TEST_LEASE="+c.lease.String())
			if err := worker.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = worker.Process.Kill()
				_ = worker.Wait()
			})
			pid := readPID(t, pidFile)
			if err := worker.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			wantDead(t, pid)
		})
	}
}

func TestWorkerHearsThatItsGuardIsGone(t *testing.T) {
	t.Parallel()
	g, err := executor.StartGuard(io.Discard, must(exec.LookPath("true")))
	if err != nil {
		t.Fatal(err)
	}
	runtest.Eventually(t, 10*time.Second, "an error", func() bool { return errors.Is(g.HoldsFor(time.Second), executor.ErrGuard) })
	_ = g.Close()
}

func readPID(t *testing.T, file string) int {
	t.Helper()
	var pid int
	runtest.Eventually(t, 10*time.Second, "the number of the process", func() bool {
		text, _ := os.ReadFile(file)
		var err error
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return pid
}

func wantDead(t *testing.T, pid int) {
	t.Helper()
	runtest.Eventually(t, 10*time.Second, fmt.Sprintf("process %d to end", pid), func() bool { return !alive(pid) })
}

// alive reports whether a process runs; one that ended and was not reaped does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}
