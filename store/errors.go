package store

import (
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

// One sentinel per decision a caller makes.
var (
	// ErrConflict says that the condition of a write did not hold; errors.As with
	// *ConflictError gives the row that stood in the way.
	ErrConflict = errors.New("condition failed")
	// ErrSkipped says that a write was not tried, since the one that it follows does not hold.
	ErrSkipped = errors.New("not written, since the write before it was not")
	// ErrNotFound says that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrUnknown says that a write may or may not have been applied, and that reading it back failed too.
	ErrUnknown = errors.New("outcome unknown")
	// ErrFull says that the store accepts no new tasks for want of space; what is stored still drains.
	ErrFull = errors.New("store is full")
	// ErrThrottled says that the store was too busy for a call, for longer than it is tried again. Nothing
	// was written; a later try may come through.
	ErrThrottled = errors.New("store is throttled")
	// ErrUnreachable says that the store did not answer, or only that it failed, for longer than a call is
	// tried again. What the call was to write is not written; a later try may come through.
	ErrUnreachable = errors.New("store does not answer")
	// ErrTooLarge refuses a payload or a control value above the limit.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed refuses a call that no caller should make; the text says what is wrong with it.
	ErrMalformed = errors.New("malformed")
	// ErrVersion says that data was written by a newer version; it is left alone.
	ErrVersion = errors.New("data of a newer version")
	// ErrOldForm says that data was written by an older version, in a form that has been given up; it is left
	// alone.
	ErrOldForm = errors.New("data of an older form, which this program does not read")
	// ErrCorrupt says that data fails its checks; it is left alone.
	ErrCorrupt = errors.New("corrupt data")
	// ErrInUse says that another process has the data open.
	ErrInUse = errors.New("in use by another process")
	// ErrBusy refuses a snapshot while there is another one.
	ErrBusy = errors.New("another snapshot is under way")
	// ErrUnfinished says that data were being restored and are not complete; they are left alone.
	ErrUnfinished = errors.New("unfinished restore")
	// ErrClosed refuses calls after Close.
	ErrClosed = errors.New("store is closed")
)

// ConflictError is a failed condition with what the driver saw instead.
type ConflictError struct {
	Task    *task.Task // current task or wake-up row; nil when absent, and for payload rows
	Control *Control   // current control row; nil when absent
}

func (e *ConflictError) Error() string {
	switch {
	case e.Task != nil:
		return fmt.Sprintf("%v: task %s is %s at seq %d", ErrConflict, e.Task.ID, e.Task.State, e.Task.Seq)
	case e.Control != nil:
		return fmt.Sprintf("%v: %s %q is at version %d", ErrConflict, e.Control.Kind, e.Control.Name, e.Control.Version)
	}
	return ErrConflict.Error()
}

// Is makes errors.Is(err, ErrConflict) true.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }
