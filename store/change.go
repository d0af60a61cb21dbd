package store

import (
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

// This file has the writes that change a task, in an order that keeps a wake-up row as long as the task
// lives: a wake-up row is put before the row that needs it, and deleted after the row that ends it.
// docs/internals/protocol.md says what each reader may conclude.

// First returns the write that stores a new task as a wake-up row alone.
func First(t task.Task) []Op { return AppendFirst(nil, &t) }

// AppendFirst appends the write of First.
func AppendFirst(ops []Op, t *task.Task) []Op {
	ops = append(ops, Op{Kind: PutWakeup, Task: *t, New: true})
	SetFirst(&ops[len(ops)-1].Task)
	return ops
}

// SetFirst sets where a new task waits that is stored as a wake-up row alone.
func SetFirst(t *task.Task) {
	t.Wake = t.Due
	t.WakeRow = task.WakeRow{At: t.Due, Seq: t.Seq}
}

// FirstWithRow returns the writes that store a new task as a wake-up row, which also holds the task, and a
// task row. A task with a key needs the row because the row holds the key; a task that is enqueued or claimed
// at once needs it for its state. The wake-up row of a task without a key has seq 1, unless t.WakeRow has a
// higher one, so that a repeated call does not replace it. The seq of a task with a key begins above that of
// every earlier task with the key.
func FirstWithRow(t task.Task) []Op {
	t.WakeRow = task.WakeRow{At: t.Due, Seq: max(t.WakeRow.Seq, 1)}
	if t.ID.IsDerived() {
		t.WakeRow.Seq = t.Seq
	}
	return []Op{{Kind: PutWakeup, Task: t, New: true}, {Kind: PutTask, Task: t, New: true, Follows: true}}
}

// AsNext returns the writes of FirstWithRow for a key whose last task has ended as the row that was read.
// They replace that row, so that of two calls only one uses the key. Their seq is above that of the row
// already, unless the clock was set back.
func AsNext(rows []Op, ended *task.Task) []Op {
	for i := range rows {
		t := &rows[i].Task
		t.Seq = max(t.Seq, ended.Seq+1)
		t.WakeRow.Seq, t.Life, t.PayloadRev = t.Seq, t.Seq, ended.Seq
		t.Attempt += ended.Attempt // reports of earlier attempts stay refused
	}
	last := &rows[len(rows)-1]
	last.Kind, last.From = ReplaceTask, ended.Seq
	return rows
}

// SeqAfter returns the seq of a task that moves to another wake-up row now. It is above all that was put
// before for the task, also by calls that crashed, and tells the age of the wake-up row (docs/internals/protocol.md,
// rule 2d).
func SeqAfter(seq uint64, now task.Instant) uint64 { return max(seq+1, uint64(now)) }

// Materialize returns the writes that give a task which is a wake-up row alone a task row and change it to
// next, as Change does with move. The task row refuses a dispatch of the wake-up row.
func Materialize(seen *task.Task, next task.Task) []Op {
	ops := []Op{{Kind: PutTask, Task: *seen}}
	for _, op := range Reschedule(seen, next) {
		op.Follows = true
		ops = append(ops, op)
	}
	return ops
}

// Reschedule returns the writes that have a task with a task row wait for next's wake-up.
// A task that moves to another partition gets a wake-up row there. The one that it had is left, since no
// write follows one of another partition: Remove deletes it then.
func Reschedule(seen *task.Task, next task.Task) []Op {
	if seen.Partition != next.Partition {
		return Redrive(seen, next)
	}
	ops := Change(next, true, false)
	for i := range ops {
		if ops[i].Kind == ReplaceTask {
			ops[i].From = seen.Seq
		}
	}
	return ops
}

// Redrive returns the writes that have an ended task wait again, for next's wake-up, with a new wake-up row.
func Redrive(ended *task.Task, next task.Task) []Op {
	next.WakeRow = task.WakeRow{At: next.Wake, Seq: next.Seq}
	return []Op{{Kind: PutWakeup, Task: Bare(&next)}, {Kind: ReplaceTask, Task: next, From: ended.Seq, Follows: true}}
}

// Bare returns the bare wake-up row that a task row names.
func Bare(row *task.Task) task.Task {
	return task.Task{ID: row.ID, Partition: row.Partition, Seq: row.WakeRow.Seq, Wake: row.WakeRow.At, WakeRow: row.WakeRow}
}

// Change returns the writes that replace a task row by next, which task.Task.Apply made of it. With move the
// wake-up row moves to next's wake-up; otherwise it stays. An end deletes it.
func Change(next task.Task, move, patient bool) []Op { return AppendChange(nil, &next, move, patient) }

// AppendChange appends the writes of Change to ops. It does not change next.
func AppendChange(ops []Op, next *task.Task, move, patient bool) []Op {
	old := task.Task{ID: next.ID, Partition: next.Partition, WakeRow: next.WakeRow}
	switch {
	case next.State.IsEnd():
		return append(ops, Op{Kind: ReplaceTask, Task: *next, Patient: patient}, remove(old))
	case move && next.Wake != next.WakeRow.At:
		moved := Op{Kind: ReplaceTask, Task: *next, Patient: patient, Follows: true}
		moved.Task.WakeRow = task.WakeRow{At: next.Wake, Seq: next.Seq}
		return append(ops, Op{Kind: PutWakeup, Task: Bare(&moved.Task), Patient: patient}, moved, remove(old))
	}
	return append(ops, Op{Kind: ReplaceTask, Task: *next, Patient: patient})
}

// remove deletes a wake-up row that the write before it made needless. A crash may leave the row; a full scan
// of the partition then deletes it.
func remove(t task.Task) Op {
	return Op{Kind: DeleteWakeup, Task: t, Lazy: purposes[toTidy].lazy, Follows: true}
}

// Remove returns the write that deletes a leftover wake-up row at the seq at which the caller saw it, as a
// row or named by a task row.
func Remove(t *task.Task) Op { return removeAsSeen(t, toTidy) }

// RemoveLast is Remove where the deletion alone ends the task.
func RemoveLast(t *task.Task) Op { return removeAsSeen(t, toEnd) }

func removeAsSeen(t *task.Task, why purpose) Op {
	row := task.Task{ID: t.ID, Partition: t.Partition, WakeRow: t.WakeRow}
	return Op{Kind: DeleteWakeup, Task: row, Lazy: purposes[why].lazy, Alone: t.State.IsEnd() && !t.HasFollowups()}
}

// EndWaiting returns the writes that end a task which is a wake-up row alone. Its task row prevents a
// dispatch.
func EndWaiting(next task.Task, seen *task.Task) []Op {
	row := Remove(seen)
	row.Follows = true
	return []Op{{Kind: PutTask, Task: next}, row}
}

// EndUndelivered is EndWaiting for a task of a deliver lambda without a key. Deliverers do not read task
// rows, so the wake-up row is deleted first, unless a deliverer has acquired it, and the task row follows.
func EndUndelivered(next task.Task, seen *task.Task) []Op {
	return []Op{RemoveLast(seen), {Kind: PutTask, Task: next, Follows: true}}
}

// Acquire returns the write by which a process acquires a task of a deliver lambda; a task.Acquire event made
// next. With first the task is a wake-up row alone, and gets a task row if it has a key.
func Acquire(next task.Task, first bool) Op {
	op := Op{Kind: ReplaceTask, Task: next, Lazy: purposes[toAcquire].lazy}
	switch {
	case first && next.Key != "":
		op.Kind = PutTask
	case first:
		op.Kind = ReplaceWakeup
		op.Task.WakeRow.Seq = next.Seq
	}
	return op
}

// RemoveDelivered returns the write that ends a delivered task which is a wake-up row alone. It deletes the
// row at any seq, because a process that acquired the task since acquired one that is done.
func RemoveDelivered(t *task.Task) Op {
	row := task.Task{ID: t.ID, Partition: t.Partition, WakeRow: task.WakeRow{At: t.WakeRow.At}}
	return Op{Kind: DeleteWakeup, Task: row, Lazy: purposes[toEnd].lazy, Patient: true}
}

// PutFollow returns the write of what follows a task where its row has no room for that. It comes before the
// rows of the task.
func PutFollow(t *task.Task, follow []byte, until task.Instant) Op {
	return Op{Kind: PutPayload, Payload: follow, Task: task.Task{
		ID: t.Chain.FollowID, Partition: t.Partition, Due: t.Due, ExpireAt: until,
	}}
}

// ForgetFollow returns the write that deletes the payload row of what followed a deleted task.
func ForgetFollow(t *task.Task) Op {
	return Op{Kind: DeletePayload, Task: task.Task{ID: t.Chain.FollowID}, Lazy: purposes[toForget].lazy}
}

// ForgetPayload returns the write that deletes the payload of a deleted task.
func ForgetPayload(t *task.Task) Op {
	return Op{Kind: DeletePayload, Task: task.Task{ID: t.PayloadID()}, Lazy: purposes[toForget].lazy}
}

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
