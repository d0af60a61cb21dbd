// Package process identifies processes and reports when one on this machine has ended. It reports only what
// is certain: a watched process shares the kernel and the process-id namespace, and runs with the given
// number and start time when the watch begins. On systems that cannot tell (any but Linux, or a kernel before
// 5.3) no process can be watched.
package process

import "errors"

// ID identifies a process among all processes of all machines, at all times.
type ID struct {
	// Place is a digest of the machine's boot id and the process-id namespace. Processes with the same place
	// have different numbers.
	Place [PlaceBytes]byte
	PID   int
	// StartedTicks is when the process started, in ticks since the boot. A later process may get its number.
	StartedTicks uint64
}

// PlaceBytes is the length of ID.Place.
const PlaceBytes = 16

var (
	// ErrElsewhere says that a process does not run where this one can see it.
	ErrElsewhere = errors.New("process does not run on this machine")
	// ErrUnknown says that the system cannot identify processes.
	ErrUnknown = errors.New("processes cannot be identified here")
)
