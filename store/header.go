package store

import (
	"encoding/binary"
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

// A row is a fixed header, which is enough to check conditions, and then fields in protobuf wire format:
//
//	0      format version
//	1      state, with rowApart
//	2..9   seq, big endian
//	10..17 wake, big endian
//	18..24 partition: lambda (4), priority (1), shard (2), big endian
//	then   only in an end: ended and expire at, big endian (16)
//	then   only with rowApart: instant and seq of the wake-up row, big endian (16);
//	       else they are wake and seq
//
// A reader skips unknown fields and does not keep them when it writes the row again. So a field must be read
// one release before it is written; a change that an older reader must not skip raises the version.
//
// Rows of version 1 did not name a wake-up row; they are refused with ErrOldForm.
const (
	rowVersion     = 2
	headerLen      = 25
	headerEndLen   = 16
	headerApartLen = 16
	// rowApart is set in the state byte when the wake-up row is not at (wake, seq).
	rowApart = 0x80
)

// Header is the part of an encoded row that conditions and indexes need.
type Header struct {
	State     task.State // Unknown in a bare wake-up row
	Seq       uint64
	Wake      task.Instant
	WakeRow   task.WakeRow
	Partition task.Partition
	Ended     task.Instant // zero outside an end
	ExpireAt  task.Instant // zero outside an end
}

// HeaderOf returns the header of t's row.
func HeaderOf(t *task.Task) Header {
	h := Header{State: t.State, Seq: t.Seq, Wake: t.Wake, WakeRow: t.WakeRow, Partition: t.Partition}
	if t.State.IsEnd() {
		h.Ended, h.ExpireAt = t.Ended, t.ExpireAt
	}
	return h
}

// DecodeHeader reads the header of an encoded task. It returns ErrVersion, ErrOldForm or ErrCorrupt.
func DecodeHeader(row []byte) (Header, error) {
	h, _, err := decodeHeader(row)
	return h, err
}

func decodeHeader(row []byte) (h Header, rest []byte, err error) {
	if err := checkVersion(row); err != nil {
		return Header{}, nil, err
	}
	if len(row) < headerLen {
		return Header{}, nil, errShort(row)
	}
	h = Header{
		State:     task.State(row[1] &^ rowApart),
		Seq:       binary.BigEndian.Uint64(row[2:]),
		Wake:      decodeInstant(row[10:]),
		Partition: DecodePartition(row[18:]),
	}
	h.WakeRow = task.WakeRow{At: h.Wake, Seq: h.Seq}
	rest = row[headerLen:]
	if h.State.IsEnd() {
		if len(rest) < headerEndLen {
			return Header{}, nil, errShort(row)
		}
		h.Ended, h.ExpireAt = decodeInstant(rest), decodeInstant(rest[8:])
		rest = rest[headerEndLen:]
	}
	if row[1]&rowApart != 0 {
		if len(rest) < headerApartLen {
			return Header{}, nil, errShort(row)
		}
		h.WakeRow = task.WakeRow{At: decodeInstant(rest), Seq: binary.BigEndian.Uint64(rest[8:])}
		rest = rest[headerApartLen:]
	}
	return h, rest, nil
}

func checkVersion(row []byte) error {
	switch {
	case len(row) == 0 || row[0] == 0:
		return errShort(row)
	case row[0] > rowVersion:
		return fmt.Errorf("%w: task row has format %d, this program knows up to %d", ErrVersion, row[0], rowVersion)
	case row[0] < rowVersion:
		return fmt.Errorf("%w: task row has format %d, this program reads %d", ErrOldForm, row[0], rowVersion)
	}
	return nil
}

func errShort(row []byte) error { return fmt.Errorf("%w: task row of %d bytes", ErrCorrupt, len(row)) }

// PartitionLen is the length of an encoded partition.
const PartitionLen = 7

// AppendPartition appends a partition in a form that sorts as (lambda, priority, shard).
func AppendPartition(dst []byte, p task.Partition) []byte {
	dst = binary.BigEndian.AppendUint32(dst, p.Lambda)
	dst = append(dst, p.Priority)
	return binary.BigEndian.AppendUint16(dst, p.Shard)
}

// DecodePartition reads the first PartitionLen bytes of b.
func DecodePartition(b []byte) task.Partition {
	return task.Partition{
		Lambda:   binary.BigEndian.Uint32(b),
		Priority: b[4],
		Shard:    binary.BigEndian.Uint16(b[5:]),
	}
}

func appendInstant(dst []byte, i task.Instant) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

func decodeInstant(b []byte) task.Instant { return task.Instant(binary.BigEndian.Uint64(b)) }
