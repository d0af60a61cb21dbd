package store

import (
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/task"
)

// check returns why each op is refused, nil when none is.
func (s *Store) check(ops []Op) []error {
	var refused []error
	for i := range ops {
		err := s.checkOp(&ops[i])
		switch {
		case err != nil || !ops[i].Follows:
		case refused != nil && refused[i-1] != nil:
			err = ErrSkipped
		default:
			err = checkFollows(ops, i)
		}
		if err == nil {
			continue
		}
		if refused == nil {
			refused = make([]error, len(ops))
		}
		refused[i] = err
	}
	return refused
}

func (s *Store) checkOp(op *Op) error {
	if err := checkLazy(op); err != nil {
		return err
	}
	switch op.Kind {
	case PutWakeup:
		return s.checkWakeup(&op.Task)
	case ReplaceWakeup:
		return s.checkReplacement(&op.Task)
	case PutTask:
		return s.checkTask(&op.Task, 1)
	case ReplaceTask:
		return s.checkTask(&op.Task, 2)
	case DeleteWakeup:
		return checkKey(&op.Task)
	case PutPayload:
		return s.checkPayload(op)
	case DeletePayload:
		return checkID(op.Task.ID)
	case PutControl, DeleteControl:
		return checkControl(&op.Control)
	}
	return fmt.Errorf("%w op: kind %d", ErrMalformed, op.Kind)
}

// checkFollows checks that op i of the list follows a write of a row of the same task. Between the end of a
// task and the deletion of its wake-up row there may be rows of its follow-ups.
func checkFollows(ops []Op, i int) error {
	if i == 0 {
		return fmt.Errorf("%w op: it follows, but is the first", ErrMalformed)
	}
	n := i - 1
	for n > 0 && ops[n].Follows && ops[n].ofFollowup() {
		n--
	}
	end, between, op := &ops[n], ops[n+1:i], &ops[i]
	switch {
	case end.endsParent() && op.ofFollowup():
		return checkFollowup(end, between, op)
	case len(between) > 0 && (!end.endsParent() || op.Kind != DeleteWakeup),
		!end.ofTask() || !op.ofTask() || end.Task.ID != op.Task.ID || end.Task.Partition != op.Task.Partition:
		return fmt.Errorf("%w op: kind %d of task %s follows kind %d of task %s; want rows of one task in one partition",
			ErrMalformed, op.Kind, op.Task.ID, ops[i-1].Kind, ops[i-1].Task.ID)
	}
	return nil
}

// checkFollowup checks a row that follows the end of a task, with others between: first come the first rows
// of its follow-ups, and then the task rows of those among them that are claimed at once.
func checkFollowup(end *Op, between []Op, op *Op) error {
	t := &op.Task
	if !t.IsFollowup(&end.Task, t.Chain.Edge, t.Chain.Index) {
		return fmt.Errorf("%w op: task %s does not follow task %s, with whose end it is put", ErrMalformed, t.ID, end.Task.ID)
	}
	put := false
	for i := range between {
		switch one := &between[i]; {
		case one.Kind == PutTask && op.Kind == PutWakeup, one.Kind == op.Kind && one.Task.ID == t.ID:
			return fmt.Errorf("%w op: kind %d of task %s comes twice, or after a row of a claimed task", ErrMalformed, op.Kind, t.ID)
		case one.Kind == PutWakeup && KeyOf(&one.Task) == KeyOf(t):
			put = true
		}
	}
	if op.Kind == PutTask && !put {
		return fmt.Errorf("%w op: row of task %s, which is claimed, without its first row before it", ErrMalformed, t.ID)
	}
	return nil
}

// endsParent reports whether the op ends a task that something follows.
func (op *Op) endsParent() bool {
	return (op.Kind == PutTask || op.Kind == ReplaceTask) && op.Task.State.IsEnd() && op.Task.HasFollowups() && !op.Amends
}

// ofFollowup reports whether the op puts the first row of a task that follows another, or its task row as
// claimed.
func (op *Op) ofFollowup() bool {
	t := &op.Task
	return t.Chain != nil && t.Chain.Edge != task.NoEdge &&
		(op.Kind == PutWakeup && t.State == task.Scheduled || op.Kind == PutTask && t.State == task.Claimed)
}

// ofTask reports whether the op writes a wake-up row or a task row.
func (op *Op) ofTask() bool {
	switch op.Kind {
	case PutWakeup, DeleteWakeup, ReplaceWakeup, PutTask, ReplaceTask:
		return true
	case PutPayload, DeletePayload, PutControl, DeleteControl:
	}
	return false
}

func (s *Store) checkWakeup(t *task.Task) error {
	switch t.State {
	case task.Unknown:
		if t.WakeRow != (task.WakeRow{At: t.Wake, Seq: t.Seq}) {
			return fmt.Errorf("%w wake-up row %s: bare, at wake-up %d and seq %d, but put at %d and %d",
				ErrMalformed, t.ID, t.Wake, t.Seq, t.WakeRow.At, t.WakeRow.Seq)
		}
	case task.Scheduled, task.Enqueued, task.Claimed:
	default:
		return fmt.Errorf("%w wake-up row %s: state is %s, want scheduled, enqueued, claimed or none", ErrMalformed, t.ID, t.State)
	}
	return s.checkNamed(t, 1)
}

func (s *Store) checkReplacement(t *task.Task) error {
	if t.State != task.Scheduled && t.State != task.Acquired {
		return fmt.Errorf("%w wake-up row %s: state is %s, want scheduled or acquired when it replaces", ErrMalformed, t.ID, t.State)
	}
	return s.checkNamed(t, 2)
}

// checkNamed checks a live row and the wake-up row that it names.
func (s *Store) checkNamed(t *task.Task, seqMin uint64) error {
	if err := checkKey(t); err != nil {
		return err
	}
	if t.WakeRow.Seq < seqMin || t.WakeRow.Seq > t.Seq {
		return fmt.Errorf("%w task %s: wake-up row of seq %d, want %d to its own, %d", ErrMalformed, t.ID, t.WakeRow.Seq, seqMin, t.Seq)
	}
	return s.checkRow(t)
}

func (s *Store) checkTask(t *task.Task, seqMin uint64) error {
	if err := checkID(t.ID); err != nil {
		return err
	}
	if !t.State.IsStored() {
		return fmt.Errorf("%w task %s: state %s cannot be stored", ErrMalformed, t.ID, t.State)
	}
	if t.Seq < seqMin {
		return fmt.Errorf("%w task %s: seq %d, want at least %d", ErrMalformed, t.ID, t.Seq, seqMin)
	}
	if t.State.IsEnd() != t.Wake.IsZero() {
		return fmt.Errorf("%w task %s: %s with wake-up %d; every state but an end has one", ErrMalformed, t.ID, t.State, t.Wake)
	}
	if !t.State.IsEnd() {
		return s.checkNamed(t, 1)
	}
	if t.ExpireAt.IsZero() {
		return fmt.Errorf("%w task %s: %s, but without an instant of expiry", ErrMalformed, t.ID, t.State)
	}
	return s.checkRow(t)
}

func (s *Store) checkRow(t *task.Task) error {
	if min(t.Due, t.Wake, t.WakeRow.At, t.Ended, t.ExpireAt) < 0 {
		return fmt.Errorf("%w task %s: instant before 1970", ErrMalformed, t.ID)
	}
	if len(t.Payload) > s.cfg.PayloadInlineMax {
		return fmt.Errorf("%w task %s: %d bytes of payload in the row, want at most %d", ErrMalformed, t.ID, len(t.Payload), s.cfg.PayloadInlineMax)
	}
	if t.Payload != nil && int(t.PayloadSize) != len(t.Payload) {
		return fmt.Errorf("%w task %s: payload size %d, have %d bytes", ErrMalformed, t.ID, t.PayloadSize, len(t.Payload))
	}
	return nil
}

func (s *Store) checkPayload(op *Op) error {
	switch n := len(op.Payload); {
	case n == 0:
		return fmt.Errorf("%w payload row: empty", ErrMalformed)
	case n > s.cfg.PayloadBytesMax:
		return fmt.Errorf("payload of %d bytes is %w: want at most %d", n, ErrTooLarge, s.cfg.PayloadBytesMax)
	}
	return checkID(op.Task.ID)
}

func checkKey(t *task.Task) error { return KeyOf(t).check() }

// check checks that a key can be that of a row.
func (k WakeKey) check() error {
	switch {
	case k.Partition.Lambda == 0:
		return fmt.Errorf("%w wake-up row of %s: partition %s is of no lambda", ErrMalformed, k.ID, k.Partition)
	case k.Wake <= 0:
		return fmt.Errorf("%w wake-up row of %s: at %d, want later than 1970", ErrMalformed, k.ID, k.Wake)
	}
	return checkID(k.ID)
}

func checkID(id task.ID) error {
	if id.IsZero() {
		return fmt.Errorf("%w op: zero task id", ErrMalformed)
	}
	return nil
}

func checkControl(c *Control) error {
	if err := checkControlKey(c.Kind, c.Name); err != nil {
		return err
	}
	if c.Version == 0 {
		return fmt.Errorf("%w control row: %s %q has version 0, want at least 1", ErrMalformed, c.Kind, c.Name)
	}
	if n := len(c.Value); n > ControlBytesMax {
		return fmt.Errorf("%s %q of %d bytes is %w: want at most %d", c.Kind, c.Name, n, ErrTooLarge, ControlBytesMax)
	}
	return nil
}

func checkControlKey(kind, name string) error {
	if kind == "" || name == "" || strings.ContainsRune(kind, 0) {
		return fmt.Errorf("%w control key: kind %q, name %q; neither may be empty, nor the kind hold a zero byte", ErrMalformed, kind, name)
	}
	return nil
}

func checkLimit(limit int) error {
	if limit < 1 || limit > ScanMax {
		return fmt.Errorf("%w limit %d: want 1 to %d", ErrMalformed, limit, ScanMax)
	}
	return nil
}
