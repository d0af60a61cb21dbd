package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// How long the settling of unknown outcomes tries.
const (
	settleTriesMax = 5
	settleWait     = 10 * time.Millisecond // doubles with every try
)

// verdict is what a row that was read back says about a write.
type verdict uint8

const (
	open    verdict = iota // not applied, and its condition still holds: write again
	applied                // the row is as written
	beaten                 // the condition does not hold, or the row moved on
)

// found is what reading back saw in the place of one write.
type found struct {
	task    *task.Task // wake-up or task row
	row     *task.Task // PutWakeup: the task row, when there is no wake-up row
	payload []byte
	control *Control
}

// settle finds out what became of the writes whose result is ErrUnknown, by reading back and writing again
// what was not applied. It replaces their results; what stays unknown keeps ErrUnknown, and the returned
// error says why. What follows an unknown write is unknown until that one is not.
func (s *Store) settle(ctx context.Context, ops []Op, results []error, cause error) (err error) {
	for i := range ops {
		if ops[i].Follows && errors.Is(results[i], ErrSkipped) && isUnknown(results[i-1]) {
			results[i] = ErrUnknown
		}
	}
	if errors.Is(cause, ErrClosed) {
		return cause
	}
	defer s.observe("settle", len(ops), clock.Steady(s.cfg.Clock), &err)
	wait := settleWait
	for range settleTriesMax {
		unknown := unknownOf(results)
		if cause = s.settleOnce(ctx, ops, results, unknown); cause == nil {
			return nil
		}
		if err := clock.Sleep(ctx, s.cfg.Clock, wait); err != nil {
			return errors.Join(cause, err)
		}
		wait *= 2
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

// settleOnce reads back once and writes again once; nil when nothing stayed unknown.
func (s *Store) settleOnce(ctx context.Context, ops []Op, results []error, unknown []int) error {
	rows, err := s.readBack(ctx, ops, unknown)
	if err != nil {
		return err
	}
	var again []Op
	var at []int
	for n, i := range unknown {
		op := ops[i]
		if op.Follows && isUnknown(results[i-1]) { // the one before is written again, and this after it
			again, at = append(again, op), append(at, i)
			continue
		}
		if op.Follows && !ops[i-1].Holds(results[i-1]) {
			results[i] = ErrSkipped
			continue
		}
		op.Follows = false // from here on it stands alone
		v, conflict := judge(&op, rows[n])
		switch v {
		case applied:
			results[i] = nil
		case beaten:
			results[i] = conflict
		case open:
			again, at = append(again, op), append(at, i)
		}
	}
	if len(again) == 0 {
		return nil
	}
	return s.writeAgain(ctx, again, at, results)
}

// writeAgain repeats writes that were not applied. A conflict now may be the late effect of the
// first try, so it is left to the next reading, with what follows.
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

// readBack reads the rows that the ops at the given places write, in their order.
func (s *Store) readBack(ctx context.Context, ops []Op, at []int) ([]found, error) {
	rows := make([]found, len(at))
	if err := s.readWakeups(ctx, ops, at, rows); err != nil {
		return nil, err
	}
	if err := s.readTasks(ctx, ops, at, rows); err != nil {
		return nil, err
	}
	for n, i := range at {
		var err error
		switch op := &ops[i]; op.Kind {
		case PutPayload, DeletePayload:
			rows[n].payload, err = s.d.Payload(ctx, op.Task.ID)
		case PutControl, DeleteControl:
			rows[n].control, err = s.readControl(ctx, op)
		case PutWakeup, DeleteWakeup, ReplaceWakeup, PutTask, ReplaceTask:
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return rows, nil
}

func (s *Store) readControl(ctx context.Context, op *Op) (*Control, error) {
	rows, err := s.d.Controls(ctx, op.Control.Kind, op.Control.Name)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return &rows[0], nil
}

func (s *Store) readWakeups(ctx context.Context, ops []Op, at []int, rows []found) error {
	var keys []WakeKey
	var of []int
	for n, i := range at {
		if k := ops[i].Kind; k == PutWakeup || k == DeleteWakeup || k == ReplaceWakeup {
			keys, of = append(keys, KeyOf(&ops[i].Task)), append(of, n)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	wakeups, err := s.d.Wakeups(ctx, keys)
	if err != nil {
		return err
	}
	for j := range wakeups {
		if !wakeups[j].ID.IsZero() {
			rows[of[j]].task = &wakeups[j]
		}
	}
	return nil
}

// readTasks reads task rows: of task writes, and of wake-up rows that are not there.
func (s *Store) readTasks(ctx context.Context, ops []Op, at []int, rows []found) error {
	var ids []task.ID
	var of []**task.Task
	for n, i := range at {
		switch k := ops[i].Kind; {
		case k == PutTask || k == ReplaceTask:
			ids, of = append(ids, ops[i].Task.ID), append(of, &rows[n].task)
		case k == PutWakeup && rows[n].task == nil:
			ids, of = append(ids, ops[i].Task.ID), append(of, &rows[n].row)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	tasks, err := s.d.Tasks(ctx, ids)
	if err != nil {
		return err
	}
	for j := range tasks {
		if !tasks[j].ID.IsZero() {
			*of[j] = &tasks[j]
		}
	}
	return nil
}

// judge compares a write with the row read back. It is pure.
func judge(op *Op, row found) (verdict, *ConflictError) {
	switch op.Kind {
	case PutWakeup:
		return judgeWakeup(op, row)
	case PutTask:
		if row.task == nil {
			return open, nil
		}
		return judgeRow(op, row.task)
	case ReplaceTask:
		if row.task != nil && row.task.Seq == op.Task.Seq-1 {
			return open, nil
		}
		return judgeRow(op, row.task)
	case ReplaceWakeup:
		if row.task != nil && row.task.WakeRow.Seq == op.Task.WakeRow.Seq-1 {
			return open, nil
		}
		return judgeRow(op, row.task)
	case DeleteWakeup:
		if seq := op.Task.WakeRow.Seq; row.task != nil && seq != 0 && row.task.WakeRow.Seq != seq {
			return beaten, &ConflictError{Task: row.task}
		}
		return judgeGone(row.task == nil)
	case DeletePayload:
		return judgeGone(row.payload == nil)
	case PutPayload:
		return judgePayload(op.Payload, row.payload)
	case PutControl:
		return judgeControl(&op.Control, row.control)
	case DeleteControl:
		if row.control != nil && row.control.Version != op.Control.Version {
			return beaten, &ConflictError{Control: row.control}
		}
		return judgeGone(row.control == nil)
	}
	return beaten, &ConflictError{}
}

func judgeGone(gone bool) (verdict, *ConflictError) {
	if gone {
		return applied, nil
	}
	return open, nil
}

// judgeWakeup takes a row that is not there for put only if a task row shows that it was and that it was
// removed: one that has ended, or that names another wake-up row, at the seq that this one was put for or a
// later one.
func judgeWakeup(op *Op, row found) (verdict, *ConflictError) {
	switch t := &op.Task; {
	case row.task != nil && row.task.WakeRow.Seq < t.WakeRow.Seq:
		return open, nil
	case row.task != nil:
		return judgeRow(op, row.task)
	case row.row == nil || row.row.Seq < t.WakeRow.Seq:
		return open, nil
	case row.row.State.IsEnd() || row.row.WakeRow != t.WakeRow:
		return applied, nil
	}
	return open, nil
}

// judgeRow compares a row that was written with the one that is there, nil for none.
func judgeRow(op *Op, have *task.Task) (verdict, *ConflictError) {
	if have != nil && sameRow(&op.Task, have) {
		return applied, nil
	}
	return beaten, &ConflictError{Task: have}
}

func sameRow(a, b *task.Task) bool {
	return bytes.Equal(AppendTask(nil, a), AppendTask(nil, b))
}

func judgePayload(want, have []byte) (verdict, *ConflictError) {
	switch {
	case have == nil:
		return open, nil
	case bytes.Equal(want, have):
		return applied, nil
	}
	return beaten, &ConflictError{}
}

func judgeControl(want, have *Control) (verdict, *ConflictError) {
	version := uint64(0)
	if have != nil {
		version = have.Version
	}
	switch {
	case version == want.Version-1:
		return open, nil
	case version == want.Version && bytes.Equal(have.Value, want.Value):
		return applied, nil
	}
	return beaten, &ConflictError{Control: have}
}
