package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const settleTriesMax = 5

// settlePauses are the pauses between the tries.
var settlePauses = backoff.Policy{Min: 10 * time.Millisecond, Max: 160 * time.Millisecond}

// settle finds out whether the writes whose result is ErrUnknown were applied. It reads their rows back, and
// repeats the writes that were not applied. It replaces their results; those that stay unknown keep
// ErrUnknown, and the error says why. A write that follows an unknown write is unknown as long as that write
// is.
func (s *Store) settle(ctx context.Context, ops []Op, results []error, cause error) (err error) {
	for i := range ops {
		if ops[i].Follows && errors.Is(results[i], ErrSkipped) && isUnknown(results[i-1]) {
			results[i] = ErrUnknown
		}
	}
	if errors.Is(cause, ErrClosed) {
		return cause
	}
	defer s.observe(ctx, "settle", len(ops), clock.Steady(s.cfg.Clock), &err)
	for failures := range settleTriesMax {
		unknown := unknownOf(results)
		if cause = s.settleOnce(ctx, ops, results, unknown); cause == nil {
			return nil
		}
		if err := settlePauses.Sleep(ctx, s.cfg.Clock, failures); err != nil {
			return errors.Join(cause, err)
		}
	}
	return fmt.Errorf("outcome of %d writes after %d tries: %w", len(unknownOf(results)), settleTriesMax, cause)
}

func unknownOf(results []error) []int {
	var at []int
	for i, err := range results {
		if isUnknown(err) {
			at = append(at, i)
		}
	}
	return at
}

// settleOnce reads back once and writes again once. It returns nil when nothing stayed unknown.
func (s *Store) settleOnce(ctx context.Context, ops []Op, results []error, unknown []int) error {
	rows, err := s.readBack(ctx, ops, unknown)
	if err != nil {
		return err
	}
	var again []Op
	var at []int
	for n, i := range unknown {
		op := ops[i]
		if op.Follows && isUnknown(results[i-1]) { // the one before is written again, and this one after it
			again, at = append(again, op), append(at, i)
			continue
		}
		if op.Follows && !ops[i-1].Holds(results[i-1]) {
			results[i] = ErrSkipped
			continue
		}
		op.Follows = false // the one before is settled
		repeat, result := judge(&op, rows[n])
		if repeat {
			again, at = append(again, op), append(at, i)
			continue
		}
		results[i] = result
	}
	if len(again) == 0 {
		return nil
	}
	return s.writeAgain(ctx, again, at, results)
}

// writeAgain repeats writes that were not applied. A conflict may now be the late effect of the first try, so
// it stays unknown until the next reading, and so does what follows it.
func (s *Store) writeAgain(ctx context.Context, again []Op, at []int, results []error) error {
	answers, err := s.d.Apply(ctx, again)
	if err != nil {
		return err
	}
	for n, answer := range answers {
		follows := again[n].Follows && isUnknown(results[at[n-1]])
		if follows || errors.Is(answer, ErrConflict) || errors.Is(answer, ErrUnknown) {
			err = cmp.Or(err, answer)
			continue
		}
		results[at[n]] = answer
	}
	return err
}

// found holds the rows that were read back for one write.
type found struct {
	task    *task.Task // wake-up or task row
	row     *task.Task // PutWakeup: the task row, when there is no wake-up row
	payload []byte
	control *Control
}

// readBack reads the rows that the ops at the given places write, in their order.
func (s *Store) readBack(ctx context.Context, ops []Op, at []int) ([]found, error) {
	rows := make([]found, len(at))
	var wakeups lookup[WakeKey]
	for n, i := range at {
		switch op := &ops[i]; op.Kind {
		case PutWakeup, DeleteWakeup, ReplaceWakeup:
			wakeups.add(KeyOf(&op.Task), &rows[n].task)
		case PutTask, ReplaceTask, PutPayload, DeletePayload, PutControl, DeleteControl:
		}
	}
	if err := wakeups.read(ctx, s.d.Wakeups); err != nil {
		return nil, err
	}
	var tasks lookup[task.ID]
	for n, i := range at {
		var err error
		switch op := &ops[i]; op.Kind {
		case PutTask, ReplaceTask:
			tasks.add(op.Task.ID, &rows[n].task)
		case PutWakeup:
			if rows[n].task == nil {
				tasks.add(op.Task.ID, &rows[n].row)
			}
		case PutPayload, DeletePayload:
			rows[n].payload, err = s.d.Payload(ctx, op.Task.ID)
		case PutControl, DeleteControl:
			rows[n].control, err = s.readControl(ctx, op)
		case DeleteWakeup, ReplaceWakeup:
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return rows, tasks.read(ctx, s.d.Tasks)
}

func (s *Store) readControl(ctx context.Context, op *Op) (*Control, error) {
	rows, err := s.d.Controls(ctx, op.Control.Kind, op.Control.Name)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

// lookup collects keys of rows to read in one call, and where the rows go.
type lookup[K any] struct {
	keys []K
	into []**task.Task
}

func (l *lookup[K]) add(key K, into **task.Task) {
	l.keys, l.into = append(l.keys, key), append(l.into, into)
}

// read leaves alone where no row is.
func (l *lookup[K]) read(ctx context.Context, read func(context.Context, []K) ([]task.Task, error)) error {
	if len(l.keys) == 0 {
		return nil
	}
	rows, err := read(ctx, l.keys)
	if err != nil {
		return err
	}
	for i := range rows {
		if !rows[i].ID.IsZero() {
			*l.into[i] = &rows[i]
		}
	}
	return nil
}

// judge compares a write with the rows read back. repeat says that the write was not applied and that its
// condition still holds. Otherwise result is nil if the write was applied, and a conflict if not.
func judge(op *Op, row found) (repeat bool, result error) {
	switch op.Kind {
	case PutWakeup:
		return judgeWakeup(op, row)
	case PutTask:
		if row.task == nil {
			return true, nil
		}
		return judgeRow(op, row.task)
	case ReplaceTask:
		if row.task != nil && row.task.Seq == op.Replaces() {
			return true, nil
		}
		return judgeRow(op, row.task)
	case ReplaceWakeup:
		if row.task != nil && row.task.WakeRow.Seq == op.Task.WakeRow.Seq-1 {
			return true, nil
		}
		return judgeRow(op, row.task)
	case DeleteWakeup:
		if seq := op.Task.WakeRow.Seq; row.task != nil && seq != 0 && row.task.WakeRow.Seq != seq {
			return false, &ConflictError{Task: row.task}
		}
		return row.task != nil, nil
	case DeletePayload:
		return row.payload != nil, nil
	case PutPayload:
		return judgePayload(op.Payload, row.payload)
	case PutControl:
		return judgeControl(&op.Control, row.control)
	case DeleteControl:
		if row.control != nil && row.control.Version != op.Control.Version {
			return false, &ConflictError{Control: row.control}
		}
		return row.control != nil, nil
	}
	return false, &ConflictError{}
}

// judgeWakeup takes an absent wake-up row for one that was put only if a task row proves that it was put and
// removed since: a task row that has ended, or that names another wake-up row, at this row's seq or a later
// one.
func judgeWakeup(op *Op, row found) (repeat bool, result error) {
	switch t := &op.Task; {
	case row.task != nil && row.task.WakeRow.Seq < t.WakeRow.Seq:
		return true, nil
	case row.task != nil:
		return judgeRow(op, row.task)
	case row.row == nil || row.row.Seq < t.WakeRow.Seq:
		return true, nil
	case row.row.State.IsEnd() || row.row.WakeRow != t.WakeRow:
		return false, nil
	}
	return true, nil
}

// judgeRow compares the row that was written with the one that is there, nil for none.
func judgeRow(op *Op, have *task.Task) (repeat bool, result error) {
	if have != nil && sameRow(&op.Task, have) {
		return false, nil
	}
	return false, &ConflictError{Task: have}
}

func sameRow(a, b *task.Task) bool {
	return bytes.Equal(AppendTask(nil, a), AppendTask(nil, b))
}

func judgePayload(want, have []byte) (repeat bool, result error) {
	switch {
	case have == nil:
		return true, nil
	case bytes.Equal(want, have):
		return false, nil
	}
	return false, &ConflictError{}
}

func judgeControl(want, have *Control) (repeat bool, result error) {
	version := uint64(0)
	if have != nil {
		version = have.Version
	}
	switch {
	case version == want.Version-1:
		return true, nil
	case version == want.Version && bytes.Equal(have.Value, want.Value):
		return false, nil
	}
	return false, &ConflictError{Control: have}
}
