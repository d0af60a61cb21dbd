package executor

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"
)

// errUnsupported refuses to run commands: Windows has no process groups that a guard could kill, so a command
// could outlive the lease of its worker.
var errUnsupported = errors.New("running commands is for Linux and macOS; on Windows a Go program with package sdk can be a worker")

// Guard does not exist on Windows.
type Guard struct{}

// StartGuard returns an error.
func StartGuard(io.Writer, string, ...string) (*Guard, error) { return nil, errUnsupported }

// Close returns an error.
func (*Guard) Close() error { return errUnsupported }

// HoldsFor returns an error.
func (*Guard) HoldsFor(time.Duration) error { return errUnsupported }

// RunGuard returns an error.
func RunGuard(io.Reader) error { return errUnsupported }

// Executor does not exist on Windows.
type Executor struct{}

// New returns an error.
func New(Config) (*Executor, error) { return nil, errUnsupported }

// KillAll does nothing.
func (*Executor) KillAll() {}

// Killed returns false.
func (*Executor) Killed() bool { return false }

// Run returns an error.
func (*Executor) Run(context.Context, *Task) error { return errUnsupported }

// OwnGroup puts a child in a new process group.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
