//go:build !linux

package loopback

import (
	"os"
	"syscall"
)

// ownGroup returns nil: programs are started so on Linux only; elsewhere their children are left.
func ownGroup() *syscall.SysProcAttr { return nil }

// signalGroup sends a signal to a process, which may be gone.
func signalGroup(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Signal(s)
	}
}
