package executor

import (
	"errors"
	"syscall"
	"unsafe"
)

// OwnGroup puts a child in a new process group.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// awaitExit waits until the process has ended, and does not reap it: until it is reaped no other process can
// get its number, nor another group its group's.
func awaitExit(pid int) {
	const onePID = 1 // P_PID, which the syscall package lacks here
	var info [16]uint64
	for {
		_, _, err := syscall.Syscall6(syscall.SYS_WAITID, onePID, uintptr(pid),
			uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0) //nolint:gosec // as package os does it
		if !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
