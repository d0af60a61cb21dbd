package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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
	tb      testing.TB
	name    string
	cmd     *exec.Cmd
	out     string // path of its standard output
	err     string // and of its standard error
	quiet   bool
	started time.Time
	exited  chan struct{} // closed once it is gone
	endedAt time.Time     // valid once exited
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
		tb: tb, name: name, quiet: c.quiet, exited: make(chan struct{}),
		out: filepath.Join(dir, "stdout"), err: filepath.Join(dir, "stderr"),
	}
	p.cmd = exec.Command(c.Path, c.Args...)
	p.cmd.Env = append(os.Environ(), c.Env...)
	p.cmd.Dir = dir
	if c.Stdin != "" {
		p.cmd.Stdin = strings.NewReader(c.Stdin)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var files []*os.File
	for _, path := range []string{p.out, p.err} {
		f, err := os.Create(path)
		if err != nil {
			tb.Fatal(err)
		}
		files = append(files, f)
	}
	p.cmd.Stdout, p.cmd.Stderr = files[0], files[1]
	if err := spawn(p.cmd); err != nil {
		tb.Fatalf("start %s: %v", name, err)
	}
	p.started = time.Now()
	for _, f := range files {
		_ = f.Close()
	}
	go p.wait()
	tb.Cleanup(p.cleanup)
	return p
}

// spawner is the thread that starts all processes: a process is killed when the thread that started it
// ends, which must not happen before the test program does.
var spawner = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

func spawn(cmd *exec.Cmd) error {
	result := make(chan error)
	spawner() <- func() { result <- cmd.Start() }
	return <-result
}

func (p *Process) wait() {
	_ = p.cmd.Wait()
	p.endedAt = time.Now()
	close(p.exited)
}

// cleanup kills the whole group, so that children are gone as well.
func (p *Process) cleanup() {
	_ = syscall.Kill(-p.PID(), syscall.SIGKILL)
	<-p.exited
	if p.tb.Failed() && !p.quiet {
		p.tb.Logf("%s (pid %d, %v) said:\n%s", p.name, p.PID(), p.cmd.ProcessState, tail(p.Stdout()+p.Stderr()))
	}
}

func tail(s string) string {
	if len(s) <= logTailBytes {
		return s
	}
	return "…" + s[len(s)-logTailBytes:]
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Alive reports whether the process is still there.
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
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
	return p.endedAt
}

// Wait waits for the process to end by itself and returns its exit status, or 128 and the number of the
// signal that killed it, as a shell does.
func (p *Process) Wait(atMost time.Duration) int {
	p.tb.Helper()
	select {
	case <-p.exited:
	case <-time.After(atMost):
		p.tb.Fatalf("%s did not end within %v", p.name, atMost)
	}
	if status, isStatus := p.cmd.ProcessState.Sys().(syscall.WaitStatus); isStatus && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return p.cmd.ProcessState.ExitCode()
}

// EndedAt waits for the process to end by itself and returns when it was gone.
func (p *Process) EndedAt(atMost time.Duration) time.Time {
	p.tb.Helper()
	p.Wait(atMost)
	return p.endedAt
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
