//go:build linux || darwin

package executor

import "syscall"

// kill sends a signal to a whole group, which may be gone.
func kill(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }
