package executor

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// OwnGroup puts a child in a new process group. Should this process die, the kernel kills the child,
// though not the rest of its group: that is for the guard.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended, and leaves it to be reaped: until
// then nobody else can get its number, nor its group's.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
