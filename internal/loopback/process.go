package loopback

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	stopMax   = 10 * time.Second
	tailBytes = 4 << 10
)

// Process is a running program in a process group of its own. Its methods may be called from any goroutine.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it is gone
	gone   time.Time     // valid once exited
}

// Spawn starts a program with the environment, its own one's if nil, and writes all it says to the log.
func Spawn(path string, args, env []string, log *Log) (*Process, error) {
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, log.file, log.file
	return Start(cmd)
}

// Start starts a program.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	p.cmd.SysProcAttr = ownGroup()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run keeps the thread that starts the program until the program is gone: the death signal is sent
// when that thread ends, not when its process does.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
		p.gone = time.Now()
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed once the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// State is how the process ended. It is nil before that.
func (p *Process) State() *os.ProcessState {
	if p.Alive() {
		return nil
	}
	return p.cmd.ProcessState
}

// Gone is when the process ended. It is zero before that.
func (p *Process) Gone() time.Time {
	if p.Alive() {
		return time.Time{}
	}
	return p.gone
}

// Alive reports whether the process is still there.
func (p *Process) Alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal to the process and its children, if it is still there.
func (p *Process) Signal(s syscall.Signal) {
	if p.Alive() {
		signalGroup(p.PID(), s)
	}
}

// End sends a signal, and SIGKILL if it is still there after a grace, 10 s if zero. It returns once the
// process is gone.
func (p *Process) End(s syscall.Signal, grace time.Duration) {
	p.Signal(s)
	timer := time.NewTimer(cmp.Or(grace, stopMax))
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-timer.C:
		p.Signal(syscall.SIGKILL)
		<-p.exited
	}
}

// Log holds what programs say. It has no name, so that nothing is left of it whatever happens.
type Log struct {
	once sync.Once
	file *os.File
}

// NewLog returns an empty log.
func NewLog() (*Log, error) {
	f, err := os.CreateTemp("", "kinesin-program-*.log")
	if err != nil {
		return nil, err
	}
	return &Log{file: f}, os.Remove(f.Name())
}

// Tail is the end of it, at most 4 KiB.
func (l *Log) Tail() string {
	info, err := l.file.Stat()
	if err != nil {
		return err.Error()
	}
	return l.From(max(0, info.Size()-tailBytes))
}

// From is all of it from an offset in bytes on.
func (l *Log) From(offset int64) string {
	text, err := io.ReadAll(io.NewSectionReader(l.file, offset, math.MaxInt64-offset))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Close gives it back. Programs that still write to it may go on.
func (l *Log) Close() { l.once.Do(func() { _ = l.file.Close() }) }
