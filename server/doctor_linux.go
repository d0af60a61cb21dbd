package server

import "golang.org/x/sys/unix"

// clockSynchronised reports whether the kernel's clock is disciplined; known is false when the kernel does not say.
func clockSynchronised() (synchronised, known bool) {
	state, err := unix.Adjtimex(&unix.Timex{})
	return state != unix.TIME_ERROR, err == nil
}
