//go:build linux || darwin

package executor

import "syscall"

// kill sends a signal to a whole group. That it has gone is fine.
func kill(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }
