//go:build linux || darwin

package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// tailBytesMax bounds the end of a command's stderr that is kept. Behind how the command ended, all of it is kept with
	// the task (task.ErrorText).
	tailBytesMax = 1024
	// pipeWait is how long a process that left its group may keep stderr open after its command has ended.
	pipeWait = 500 * time.Millisecond
)

// Executor runs commands. It is safe for concurrent use.
type Executor struct {
	path   string
	args   []string
	env    []string
	stdout io.Writer
	stderr *sharedWriter
	term   time.Duration
	atOnce func(error) bool
	guard  *Guard

	killed   chan struct{} // closed by KillAll
	killOnce sync.Once
}

// New finds the command. It fails when the command does not exist or cannot be executed.
func New(c Config) (*Executor, error) {
	path, err := exec.LookPath(c.Command[0])
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", c.Command[0], reasonOf(err))
	}
	e := &Executor{
		path: path, args: c.Command, env: baseEnv(&c), stdout: c.Stdout,
		stderr: &sharedWriter{w: c.Stderr}, term: c.TermToKill, atOnce: c.AtOnce, guard: c.Guard, killed: make(chan struct{}),
	}
	if e.term <= 0 || e.term > TermToKillMax {
		e.term = TermToKillMax
	}
	return e, nil
}

func reasonOf(err error) error {
	if e, found := errors.AsType[*exec.Error](err); found {
		return e.Err
	}
	return err
}

// baseEnv returns the environment of all commands: what they inherit, without the worker's own settings, and
// Ours.
func baseEnv(c *Config) []string {
	env := slices.DeleteFunc(slices.Clone(c.Env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		if c.Only != nil {
			return !slices.Contains(c.Only, name)
		}
		return strings.HasPrefix(name, envPrefix)
	})
	return slices.Concat(env, c.Ours)
}

// KillAll kills all groups at once, also those that begin later.
func (e *Executor) KillAll() { e.killOnce.Do(func() { close(e.killed) }) }

// Killed reports whether KillAll was called.
func (e *Executor) Killed() bool {
	select {
	case <-e.killed:
		return true
	default:
		return false
	}
}

// Run runs the command for a task. It returns nil when the command exits 0, an *ExitError when it ends
// otherwise, or another error when it cannot be run. When ctx ends, Run sends the group a SIGTERM and, after
// a while, a SIGKILL; or a SIGKILL at once (Config.AtOnce). Nothing of the group is left when Run returns.
func (e *Executor) Run(ctx context.Context, t *Task) error {
	tail := &tailWriter{to: e.stderr}
	cmd := e.command(t, tail)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %q: %w", e.args[0], reasonOf(err))
	}
	group := cmd.Process.Pid
	err := e.guard.begin(group)
	if err != nil {
		kill(group, syscall.SIGKILL)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(group)
	}()
	e.supervise(ctx, group, exited)
	kill(group, syscall.SIGKILL) // processes that the command left
	// No other process gets the group's number before its leader is reaped.
	err = errors.Join(err, e.guard.end(group))
	return errors.Join(err, exitError(cmd, cmd.Wait(), tail))
}

func (e *Executor) command(t *Task, stderr io.Writer) *exec.Cmd {
	cmd := &exec.Cmd{
		Path: e.path, Args: e.args, Env: append(e.env, t.env()...),
		Stdout: e.stdout, Stderr: stderr, SysProcAttr: OwnGroup(), WaitDelay: pipeWait,
	}
	if len(t.Payload) > 0 {
		cmd.Stdin = &payloadReader{payload: t.Payload}
	}
	return cmd
}

// supervise waits until the command has exited, and ends it when ctx ends or KillAll is called.
func (e *Executor) supervise(ctx context.Context, group int, exited <-chan struct{}) {
	select {
	case <-exited:
		return
	case <-e.killed:
	case <-ctx.Done():
		if e.atOnce == nil || !e.atOnce(context.Cause(ctx)) {
			e.terminate(group, exited)
		}
	}
	kill(group, syscall.SIGKILL)
	<-exited
}

// terminate sends a SIGTERM and waits for the exit, for a while.
func (e *Executor) terminate(group int, exited <-chan struct{}) {
	kill(group, syscall.SIGTERM)
	kill(group, syscall.SIGCONT) // a stopped process cannot handle it
	patience := time.NewTimer(e.term)
	defer patience.Stop()
	select {
	case <-exited:
	case <-patience.C:
	case <-e.killed:
	}
}

func exitError(cmd *exec.Cmd, err error, tail *tailWriter) error {
	status, known := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case cmd.ProcessState.Success():
		return nil // also when another process kept stderr open
	case !known:
		return err
	case status.Signaled():
		return &ExitError{Code: -1, Signal: status.Signal(), Tail: tail.String()}
	}
	return &ExitError{Code: status.ExitStatus(), Tail: tail.String()}
}

// sharedWriter writes the stderr of many commands to the worker's own stderr.
type sharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// Write never fails: commands must go on although nobody reads the worker's stderr any more.
func (s *sharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.w.Write(p)
	return len(p), nil
}

// tailWriter forwards the output of a command and keeps its end.
type tailWriter struct {
	to   io.Writer
	mu   sync.Mutex // a process that outlives the command may still write
	tail []byte
}

// Write forwards p.
func (t *tailWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.tail = append(t.tail, p[max(0, len(p)-tailBytesMax):]...)
	if over := len(t.tail) - tailBytesMax; over > 0 {
		t.tail = t.tail[:copy(t.tail, t.tail[over:])]
	}
	t.mu.Unlock()
	return t.to.Write(p)
}

// String returns the end of the output, as valid UTF-8.
func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(strings.ToValidUTF8(string(t.tail), ""))
}

// payloadReader gives a payload to a command in one piece.
type payloadReader struct{ payload []byte }

// Read implements io.Reader.
func (r *payloadReader) Read(p []byte) (int, error) {
	if len(r.payload) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.payload)
	r.payload = r.payload[n:]
	return n, nil
}

// WriteTo writes the rest of the payload without a copy.
func (r *payloadReader) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(r.payload)
	r.payload = r.payload[n:]
	return int64(n), err
}

// kill sends a signal to a whole group, which may be gone.
func kill(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }
