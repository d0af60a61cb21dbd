package store

import (
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

// purpose is the reason for a write. It decides whether the write may be lazy.
type purpose uint8

const (
	toTell    purpose = iota // a caller is told: of a new task, a claim, an outcome, a cancel
	toTidy                   // delete a wake-up row that no task needs, as a task row shows
	toEnd                    // delete a wake-up row, where nothing else shows that its task is over
	toAcquire                // acquire a task before it is put on the queue of its deliver lambda
	toForget                 // delete the payload of a deleted task
)

// purposes lists which writes may be acknowledged before they are durable: those that a crash may undo
// without making an answer untrue. Roles get lazy writes from the constructors of this package and never set
// Op.Lazy themselves.
var purposes = [...]struct {
	lazy bool
	lost string // the consequence when a crash undoes the write
}{
	toTell:    {false, "the answer was untrue"},
	toTidy:    {true, "a full scan of the partition finds the row, reads the task row and deletes it"},
	toEnd:     {false, "the task starts, though it was delivered or cancelled"},
	toAcquire: {true, "the task is sent again, as it would be without the write"},
	toForget:  {true, "an unused payload stays"},
}

// checkLazy refuses a lazy write that has no purpose which allows it: a role set the flag itself.
func checkLazy(op *Op) error {
	if op.Lazy && !purposes[purposeOf(op)].lazy {
		return fmt.Errorf("%w op: kind %d of task %s in state %s is lazy, but a crash must not undo it", ErrMalformed, op.Kind, op.Task.ID, op.Task.State)
	}
	return nil
}

// purposeOf returns the purpose of a lazy write, as far as the write shows it.
func purposeOf(op *Op) purpose {
	switch op.Kind {
	case DeleteWakeup:
		return toTidy
	case DeletePayload:
		return toForget
	case PutTask, ReplaceTask, ReplaceWakeup:
		if op.Task.State == task.Acquired {
			return toAcquire
		}
	case PutWakeup, PutPayload, PutControl, DeleteControl:
	}
	return toTell
}
