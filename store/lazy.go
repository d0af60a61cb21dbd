package store

import (
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

// purpose is what a write is for. It alone decides whether the write may be lazy.
type purpose uint8

const (
	toTell    purpose = iota // somebody is told of it: a new task, a claim, an outcome, a cancel
	toTidy                   // a wake-up row goes, since a task row says that nobody needs it any more
	toEnd                    // a wake-up row goes, and nothing else says that its task is over
	toAcquire                // a process says that it puts the task on the queue of its deliver lambda
	toForget                 // a payload goes, whose task has gone before
)

// purposes is the one table of what may be acknowledged before it is durable: only a write that a crash may
// take back without anybody having been told something that is then not so. Roles get such writes from the
// constructors of this package and never set Op.Lazy by themselves.
var purposes = [...]struct {
	lazy bool
	lost string // what follows when a crash forgets the write
}{
	toTell:    {false, "what was acknowledged is not so"},
	toTidy:    {true, "a pass over the partition finds the row, reads the task row and deletes it"},
	toEnd:     {false, "the task starts, though it was delivered or cancelled"},
	toAcquire: {true, "the row is as it was, and the task is sent again, as it would be without the row"},
	toForget:  {true, "a payload that no task names stays"},
}

// checkLazy refuses a lazy write that no purpose allows to be: a flag that somebody set by himself.
func checkLazy(op *Op) error {
	if op.Lazy && !purposes[purposeOf(op)].lazy {
		return fmt.Errorf("%w op: kind %d of task %s in state %s is lazy, and must not get lost", ErrMalformed, op.Kind, op.Task.ID, op.Task.State)
	}
	return nil
}

// purposeOf is what a lazy write is for, as far as that can be seen.
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
