package awslocal

import "syscall"

// Signals that Windows does not have: sending them does nothing.
const (
	sigStop = syscall.Signal(19)
	sigCont = syscall.Signal(18)
)
