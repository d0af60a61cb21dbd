package store

import "github.com/kinesin-io/kinesin/task"

// The writes that change a task, in the order that keeps a wake-up row there for as long as the task lives: a
// wake-up row is put before what needs it and deleted after what ends it. docs/protocol.md says what each
// reader may conclude.

// First returns the writes that store a new task as a wake-up row alone.
func First(t task.Task) []Op {
	t.Wake = t.Due
	t.WakeRow = task.WakeRow{At: t.Due, Seq: t.Seq}
	return []Op{{Kind: PutWakeup, Task: t, New: true}}
}

// FirstWithRow returns the writes that store a new task as a wake-up row, which holds the task too, and a
// task row: of a task with a key, whose row keeps the key taken, and of one that is enqueued or claimed at
// once. Its wake-up row of a task without a key has seq 1 unless t.WakeRow has a higher one, so that a
// repeated call does not replace it; one with a key begins at a seq that is higher than that of any earlier
// task with the key.
func FirstWithRow(t task.Task) []Op {
	t.WakeRow = task.WakeRow{At: t.Due, Seq: max(t.WakeRow.Seq, 1)}
	if t.ID.IsDerived() {
		t.WakeRow.Seq = t.Seq
	}
	return []Op{{Kind: PutWakeup, Task: t, New: true}, {Kind: PutTask, Task: t, New: true, Follows: true}}
}

// Change returns the writes that replace a task row by next, which was made of it by task.Task.Apply. With
// move the wake-up row goes where next wakes; without, it stays where it is. An end deletes it.
func Change(next task.Task, move, patient bool) []Op { return AppendChange(nil, &next, move, patient) }

// AppendChange appends the writes of Change to ops. It leaves next as it is.
func AppendChange(ops []Op, next *task.Task, move, patient bool) []Op {
	old := task.Task{ID: next.ID, Partition: next.Partition, WakeRow: next.WakeRow}
	switch {
	case next.State.IsEnd():
		return append(ops, Op{Kind: ReplaceTask, Task: *next, Patient: patient}, remove(old))
	case move && next.Wake != next.WakeRow.At:
		bare := task.Task{ID: next.ID, Partition: next.Partition, Seq: next.Seq, Wake: next.Wake}
		bare.WakeRow = task.WakeRow{At: next.Wake, Seq: next.Seq}
		moved := Op{Kind: ReplaceTask, Task: *next, Patient: patient, Follows: true}
		moved.Task.WakeRow = bare.WakeRow
		return append(ops, Op{Kind: PutWakeup, Task: bare, Patient: patient}, moved, remove(old))
	}
	return append(ops, Op{Kind: ReplaceTask, Task: *next, Patient: patient})
}

// remove deletes a wake-up row once the write before it made it needless. A crash may leave the row: then a
// pass over the partition finds it.
func remove(t task.Task) Op {
	return Op{Kind: DeleteWakeup, Task: t, Lazy: purposes[toTidy].lazy, Follows: true}
}

// Remove returns the write that deletes a wake-up row that nobody needs, as it was seen: as a row of its own,
// or named by a task row.
func Remove(t *task.Task) Op { return removeAsSeen(t, toTidy) }

// RemoveLast returns the write that deletes a wake-up row as it was seen, where that is all that ends its
// task.
func RemoveLast(t *task.Task) Op { return removeAsSeen(t, toEnd) }

func removeAsSeen(t *task.Task, why purpose) Op {
	row := task.Task{ID: t.ID, Partition: t.Partition, WakeRow: t.WakeRow}
	return Op{Kind: DeleteWakeup, Task: row, Lazy: purposes[why].lazy}
}

// EndWaiting returns the writes that end a task that is a wake-up row alone, by a task row that refuses its
// dispatch.
func EndWaiting(next task.Task, seen *task.Task) []Op {
	row := Remove(seen)
	row.Follows = true
	return []Op{{Kind: PutTask, Task: next}, row}
}

// EndUndelivered is EndWaiting of a task without a key of a deliver lambda. No courier looks for a task row:
// the wake-up row goes, unless somebody has acquired it, and only then does a task row say so.
func EndUndelivered(next task.Task, seen *task.Task) []Op {
	return []Op{RemoveLast(seen), {Kind: PutTask, Task: next, Follows: true}}
}

// Acquire returns the write by which a process takes a task of a deliver lambda for itself: next was made by
// a task.Acquire event. With first the task is a wake-up row alone, and gets a task row if it has a key to
// keep.
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

// RemoveDelivered returns the write that ends a delivered task that is a wake-up row alone. Whoever has
// acquired that since acquired what is done, so its seq does not matter.
func RemoveDelivered(t *task.Task) Op {
	row := task.Task{ID: t.ID, Partition: t.Partition, WakeRow: task.WakeRow{At: t.WakeRow.At}}
	return Op{Kind: DeleteWakeup, Task: row, Lazy: purposes[toEnd].lazy, Patient: true}
}

// ForgetPayload returns the write that deletes the payload of a task that is gone.
func ForgetPayload(t *task.Task) Op {
	return Op{Kind: DeletePayload, Task: task.Task{ID: t.PayloadID()}, Lazy: purposes[toForget].lazy}
}
