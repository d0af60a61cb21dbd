package store

import (
	"fmt"
	"strings"

	"github.com/kinesin-io/kinesin/task"
)

// check says of each op why it is refused; nil when none is.
func (s *Store) check(ops []Op) []error {
	var refused []error
	for i := range ops {
		err := s.checkOp(&ops[i])
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
	switch op.Kind {
	case PutWaiting:
		return s.checkWaiting(&op.Task, 1)
	case ReplaceWaiting:
		return s.checkWaiting(&op.Task, 2)
	case PutTask:
		return s.checkTask(&op.Task, 1)
	case ReplaceTask:
		return s.checkTask(&op.Task, 2)
	case DeleteWaiting:
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

func (s *Store) checkWaiting(t *task.Task, seqMin uint64) error {
	if t.State != task.Scheduled && (t.State != task.Acquired || seqMin == 1) {
		return fmt.Errorf("%w waiting row %s: state is %s, want scheduled, or acquired when it replaces", ErrMalformed, t.ID, t.State)
	}
	if t.Seq < seqMin {
		return fmt.Errorf("%w waiting row %s: seq %d, want at least %d", ErrMalformed, t.ID, t.Seq, seqMin)
	}
	if err := checkKey(t); err != nil {
		return err
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
	if t.State.IsEnd() && t.ExpireAt.IsZero() {
		return fmt.Errorf("%w task %s: %s, but no instant at which it may be deleted", ErrMalformed, t.ID, t.State)
	}
	return s.checkRow(t)
}

func (s *Store) checkRow(t *task.Task) error {
	if min(t.Due, t.Wake, t.Ended, t.ExpireAt) < 0 {
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

func checkKey(t *task.Task) error {
	if t.Due <= 0 {
		return fmt.Errorf("%w waiting key of %s: due %d, want later than 1970", ErrMalformed, t.ID, t.Due)
	}
	return checkID(t.ID)
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
