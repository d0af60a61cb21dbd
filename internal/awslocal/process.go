package awslocal

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is a running program in a process group of its own.
type process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed once it is gone
}

// spawn starts the program and writes all it says to log. The program dies with this one.
func spawn(path string, args []string, log *os.File) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// run keeps the thread that starts the program until the program is gone: the death signal is sent
// when that thread ends, not when its process does.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.exited)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait()
	}
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.pid(), s) }

// end sends a signal, and SIGKILL when that was not enough, and returns once the process is gone.
func (p *process) end(s syscall.Signal) {
	if !p.alive() {
		return
	}
	p.signal(s)
	select {
	case <-p.exited:
	case <-time.After(stopMax):
		p.signal(syscall.SIGKILL)
		<-p.exited
	}
}

// logFile holds what a program says. It has no name, so that nothing is left of it whatever happens.
type logFile struct {
	once sync.Once
	file *os.File
}

func newLog() (*logFile, error) {
	f, err := os.CreateTemp("", "kinesin-emulator-*.log")
	if err != nil {
		return nil, err
	}
	return &logFile{file: f}, os.Remove(f.Name())
}

// tail is the end of it, at most tailBytes.
func (l *logFile) tail() string {
	info, err := l.file.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-tailBytes)
	text, err := io.ReadAll(io.NewSectionReader(l.file, from, tailBytes))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (l *logFile) close() { l.once.Do(func() { _ = l.file.Close() }) }
