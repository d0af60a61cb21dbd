package executor

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// OwnGroup puts a child in a new process group. If this process dies, the kernel kills the child, and the
// guard kills the rest of the group.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit waits until the process has ended, and does not reap it: until it is reaped no other process can
// get its number, nor another group its group's.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
