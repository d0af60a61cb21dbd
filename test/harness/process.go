package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// ExitMax is how long a process may take to be gone once it was told to.
const ExitMax = 20 * time.Second

// logTailBytes is how much of a process's output a failed test shows.
const logTailBytes = 4 << 10

// Command is a program to run.
type Command struct {
	Path     string // kinesin if empty
	Args     []string
	Env      []string // besides the test's own
	Stdin    string
	Clock    *Clock // its wall clock; nil: the machine's
	FilesMax int    // how many files it may have open; 0: as many as the test

	quiet bool // a failed test does not show what it said
}

// String is for people.
func (c Command) String() string { return filepath.Base(c.Path) + " " + strings.Join(c.Args, " ") }

// Process is a running program in a process group of its own.
type Process struct {
	*loopback.Process

	tb    testing.TB
	name  string
	cmd   *exec.Cmd
	out   string // path of its standard output
	err   string // and of its standard error
	quiet bool
}

// Start runs a program until the test is over at the latest.
func Start(tb testing.TB, c Command) *Process {
	tb.Helper()
	skipShort(tb)
	if c.Path == "" {
		c.Path = Kinesin(tb)
	}
	name, dir := c.String(), tb.TempDir()
	if c.Clock != nil {
		c = c.Clock.shifted(c)
	}
	if c.FilesMax > 0 {
		script := fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, c.FilesMax)
		c.Path, c.Args = "/bin/sh", append([]string{"-c", script, c.Path}, c.Args...)
	}
	p := &Process{
		tb: tb, name: name, quiet: c.quiet,
		out: filepath.Join(dir, "stdout"), err: filepath.Join(dir, "stderr"),
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Dir = dir
	if c.Stdin != "" {
		p.cmd.Stdin = strings.NewReader(c.Stdin)
	}
	var files []*os.File
	for _, path := range []string{p.out, p.err} {
		f, err := os.Create(path)
		if err != nil {
			tb.Fatal(err)
		}
		files = append(files, f)
	}
	p.cmd.Stdout, p.cmd.Stderr = files[0], files[1]
	var err error
	if p.Process, err = loopback.Start(p.cmd); err != nil {
		tb.Fatal(err)
	}
	for _, f := range files {
		_ = f.Close()
	}
	tb.Cleanup(p.cleanup)
	return p
}

// cleanup kills the whole group, so that children are gone as well.
func (p *Process) cleanup() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.Exited()
	if p.tb.Failed() && !p.quiet {
		p.tb.Logf("%s (pid %d, %v) said:\n%s", p.name, p.PID(), p.State(), tail(p.Stdout()+p.Stderr()))
	}
}

func tail(s string) string {
	if len(s) <= logTailBytes {
		return s
	}
	return "…" + s[len(s)-logTailBytes:]
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(s syscall.Signal) {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && p.Alive() {
		p.tb.Fatalf("signal %v to %s: %v", s, p.name, err)
	}
}

// Kill ends the process with SIGKILL and returns when it is gone, and when that was.
func (p *Process) Kill() time.Time {
	p.tb.Helper()
	p.Signal(syscall.SIGKILL)
	p.Wait(ExitMax)
	return p.Gone()
}

// Wait waits for the process to end by itself and returns its exit status, or 128 and the number of the
// signal that killed it, as a shell does.
func (p *Process) Wait(atMost time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.Exited():
	case <-time.After(atMost):
		p.tb.Fatalf("%s did not end within %v", p.name, atMost)
	}
	if status, isStatus := p.State().Sys().(syscall.WaitStatus); isStatus && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.State().ExitCode()
}

// EndedAt waits for the process to end by itself and returns when it was gone.
func (p *Process) EndedAt(atMost time.Duration) time.Time {
	p.tb.Helper()
	p.Wait(atMost)
	return p.Gone()
}

// Stdout is what the process wrote to its standard output so far.
func (p *Process) Stdout() string { return read(p.out) }

// Stderr is what the process wrote to its standard error so far.
func (p *Process) Stderr() string { return read(p.err) }

func read(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(bytes.ToValidUTF8(content, []byte("?")))
}

// Runs reports whether a process runs: a dead one that nobody has asked after does not.
func Runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}
