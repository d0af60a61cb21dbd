package loopback

import "syscall"

// ownGroup puts a program in a process group of its own, and kills it when the thread that starts it ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// signalGroup sends a signal to a process group, which may be gone.
func signalGroup(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }
