// Package process tells processes of this machine apart and sees that one has ended. It says so only of what
// is certain: of a process with the same kernel and the same process-id namespace, whose number and start are
// those of one that runs when the watch on it begins. Where the system cannot tell (any other than Linux, or
// a kernel before 5.3) nothing is known.
package process

import "errors"

// ID names a process among all that ever run on any machine.
type ID struct {
	// Place is a digest of the machine's boot and of the process-id namespace: numbers mean the same where it
	// is the same.
	Place [PlaceBytes]byte
	PID   int
	// StartedTicks is when it started, in ticks since the boot: another one with its number started later.
	StartedTicks uint64
}

// PlaceBytes is the length of a place.
const PlaceBytes = 16

var (
	// ErrElsewhere says that a process is none that can be seen from here.
	ErrElsewhere = errors.New("process does not run beside this one")
	// ErrUnknown says that the system does not tell.
	ErrUnknown = errors.New("processes are not told apart here")
)
