package store

import (
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// OpKind is a kind of write.
type OpKind uint8

// The kinds of writes.
const (
	// PutWakeup adds the wake-up row at KeyOf(Task) with Task.WakeRow.Seq, or replaces one with a lower seq;
	// conflicts when there is one whose seq is not lower. The next operation is tried in both cases.
	PutWakeup OpKind = iota + 1
	// DeleteWakeup removes the wake-up row at KeyOf(Task); conflicts when there is none, and unless the row's
	// seq is Task.WakeRow.Seq or that is 0. With seq 0 a driver may count an absent row as removed. With Lazy
	// it may answer before it checks the condition; its own reads then show no row, unless the condition
	// fails.
	DeleteWakeup
	// PutTask adds a task row; conflicts when the id exists.
	PutTask
	// ReplaceTask replaces the task row of the same id; conflicts unless its Seq is Replaces().
	ReplaceTask
	// PutPayload adds the payload row Task.ID, which is the PayloadID of its task; conflicts when it exists.
	// Task.Due, and Task.ExpireAt if it is known, tell a driver whose payloads expire by themselves how long
	// the payload is needed.
	PutPayload
	// DeletePayload removes the payload row Task.ID, if there is one.
	DeletePayload
	// PutControl stores Control; conflicts unless the row's version is Control.Version-1
	// (Version 1: unless the row is absent).
	PutControl
	// DeleteControl removes the control row; conflicts unless its version is Control.Version.
	DeleteControl
	// ReplaceWakeup replaces the wake-up row at KeyOf(Task), which holds a task; conflicts unless its seq is
	// Task.WakeRow.Seq-1.
	ReplaceWakeup
)

// PatientMax is how much later a patient write may be acknowledged. PatientEndMax is the same for one that
// ends a task, for which nothing remains to be done.
const (
	PatientMax    = 4 * time.Millisecond
	PatientEndMax = 100 * time.Millisecond
)

// Op is one conditional write of one row.
type Op struct {
	Kind    OpKind
	Task    task.Task // DeleteWakeup uses only ID, Partition and WakeRow; payload ops only ID, and PutPayload its hints
	Payload []byte
	Control Control
	// Lazy allows acknowledging the write before it is durable. A crash that undoes it must be harmless:
	// lazy.go lists the writes for which that is so, and the constructors in change.go set the flag.
	Lazy bool
	// Patient allows acknowledging the write up to PatientMax or PatientEndMax later, so that the writes of
	// several calls share one sync of the disk, or one request. An acknowledged patient write is as durable
	// as any other. A call is patient if all its writes are patient or lazy.
	Patient bool
	// New marks a write that adds a task: the rows of a Schedule call. A full store refuses writes with New
	// and accepts all others, so that stored tasks still drain.
	New bool
	// From is the seq of the row that a ReplaceTask replaces; 0: Task.Seq-1.
	From uint64
	// Amends says that a ReplaceTask changes a task row that has ended before, and so is no end.
	Amends bool
	// Alone says that a DeleteWakeup is of a task whose ended row was read, and that nothing follows it.
	Alone bool
	// Follows makes the write depend on the op before it in the list: it is applied only if that one was,
	// or, after a PutWakeup, if there was a row with the same seq or a higher one. Otherwise its result is
	// ErrSkipped. Ops that follow each other are the writes of one task in one partition, and the first rows
	// of what follows its end.
	Follows bool
}

// Replaces returns the seq of the row that a ReplaceTask replaces.
func (op *Op) Replaces() uint64 {
	if op.From != 0 {
		return op.From
	}
	return op.Task.Seq - 1
}

// Holds reports whether the op that follows is tried after this result.
func (op *Op) Holds(result error) bool {
	return result == nil || (op.Kind == PutWakeup && errors.Is(result, ErrConflict))
}
