package store

import (
	"encoding/binary"
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

//go:generate go run ../tools/rows

// AppendTask appends t encoded as a wake-up row or a task row. It allocates only to grow dst.
func AppendTask(dst []byte, t *task.Task) []byte {
	state, apart := byte(t.State), t.WakeRow != task.WakeRow{At: t.Wake, Seq: t.Seq}
	if apart {
		state |= rowApart
	}
	dst = append(dst, rowVersion, state)
	dst = binary.BigEndian.AppendUint64(dst, t.Seq)
	dst = appendInstant(dst, t.Wake)
	dst = AppendPartition(dst, t.Partition)
	if t.State.IsEnd() {
		dst = appendInstant(dst, t.Ended)
		dst = appendInstant(dst, t.ExpireAt)
	}
	if apart {
		dst = appendInstant(dst, t.WakeRow.At)
		dst = binary.BigEndian.AppendUint64(dst, t.WakeRow.Seq)
	}
	return appendTask(dst, t)
}

// DecodeTask decodes a task row. The result's Payload is a part of row; everything else is copied. It returns
// ErrVersion for a newer format, ErrOldForm for an older one, and ErrCorrupt for a row that fails its checks,
// such as a bare one.
func DecodeTask(row []byte) (task.Task, error) {
	t, err := DecodeWakeup(row)
	if err == nil && t.IsBare() {
		return task.Task{}, fmt.Errorf("%w: task row in state %d", ErrCorrupt, t.State)
	}
	return t, err
}

// DecodeWakeup decodes a wake-up row, which may be bare, as DecodeTask decodes a task row.
func DecodeWakeup(row []byte) (task.Task, error) {
	var t task.Task
	if err := readTask(&t, row); err != nil {
		return task.Task{}, err
	}
	return t, nil
}

func readTask(t *task.Task, row []byte) error {
	h, rest, err := decodeHeader(row)
	if err != nil {
		return err
	}
	t.State, t.Seq, t.Wake, t.WakeRow, t.Partition = h.State, h.Seq, h.Wake, h.WakeRow, h.Partition
	t.Ended, t.ExpireAt = h.Ended, h.ExpireAt
	if !t.State.IsStored() && !t.IsBare() {
		return fmt.Errorf("%w: row in state %d", ErrCorrupt, h.State)
	}
	if err := decodeTask(t, rest); err != nil {
		return err
	}
	if t.ID.IsZero() {
		return fmt.Errorf("%w: row without an id", ErrCorrupt)
	}
	return nil
}
