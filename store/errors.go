package store

import (
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

// There is one error for each decision of a caller.
var (
	// ErrConflict means that the condition of a write did not hold; errors.As with *ConflictError gives the
	// row that was there.
	ErrConflict = errors.New("condition failed")
	// ErrSkipped means that a write was not tried, because the one that it follows does not hold.
	ErrSkipped = errors.New("not written, because the write before it was not")
	// ErrNotFound means that there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrUnknown means that a write may have been applied or not, and that reading it back failed too.
	ErrUnknown = errors.New("outcome unknown")
	// ErrFull means that the store has no space for new tasks; stored tasks still drain.
	ErrFull = errors.New("store is full")
	// ErrThrottled means that the store throttled a call for longer than the driver repeats it. Nothing was
	// written; a later try may succeed.
	ErrThrottled = errors.New("store is throttled")
	// ErrUnreachable means that the store did not answer, or answered only with failures, for longer than the
	// driver repeats a call. Nothing was written; a later try may succeed.
	ErrUnreachable = errors.New("store does not answer")
	// ErrTooLarge refuses a payload or a control value above the limit.
	ErrTooLarge = errors.New("too large")
	// ErrMalformed refuses a call that no caller should make; the text says why.
	ErrMalformed = errors.New("malformed")
	// ErrVersion means that a newer version wrote the data, which stays unchanged.
	ErrVersion = errors.New("data of a newer version")
	// ErrOldForm means that an older version wrote the data in a format that is no longer read. The data
	// stays unchanged.
	ErrOldForm = errors.New("data of an older format, which this program does not read")
	// ErrCorrupt means that data fails its checks. It stays unchanged.
	ErrCorrupt = errors.New("corrupt data")
	// ErrInUse means that another process has the data open.
	ErrInUse = errors.New("in use by another process")
	// ErrBusy refuses a snapshot while there is another one.
	ErrBusy = errors.New("another snapshot is in progress")
	// ErrUnfinished means that a restore was interrupted.
	ErrUnfinished = errors.New("unfinished restore")
	// ErrClosed refuses calls after Close.
	ErrClosed = errors.New("store is closed")
)

// IsUnreadable reports whether an error is of one row: it is damaged, or another version wrote it, and every
// try to read it ends the same.
func IsUnreadable(err error) bool {
	return errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrOldForm)
}

func isUnknown(err error) bool { return err != nil && errors.Is(err, ErrUnknown) }

// Why a task ends whose payload no try will ever read, as its history says.
const (
	PayloadMissing = "the payload of the task is missing from the store"
	PayloadDamaged = "the payload of the task is damaged in the store"
)

// ConflictError is a failed condition with the row that the driver saw.
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
