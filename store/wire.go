package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/task"
)

// appendVarint appends a field, unless it is zero.
func appendVarint(dst []byte, f protowire.Number, v uint64) []byte {
	if v == 0 {
		return dst
	}
	return protowire.AppendVarint(protowire.AppendTag(dst, f, protowire.VarintType), v)
}

func appendString(dst []byte, f protowire.Number, v string) []byte {
	if v == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, f, protowire.BytesType), v)
}

func appendBytes(dst []byte, f protowire.Number, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, f, protowire.BytesType), b)
}

func appendFlag(dst []byte, f protowire.Number, is bool) []byte {
	if !is {
		return dst
	}
	return appendVarint(dst, f, 1)
}

// insertLength inserts the length of what follows start.
func insertLength(dst []byte, start int) []byte {
	var size [binary.MaxVarintLen64]byte
	return slices.Insert(dst, start, protowire.AppendVarint(size[:0], uint64(len(dst)-start))...)
}

// field is one decoded field: number holds varints, bytes the rest.
type field struct {
	id     protowire.Number
	number uint64
	bytes  []byte
}

// nextField reads one field and returns its length. A field of a type that rows do not have gets id 0.
func nextField(b []byte) (f field, length int, err error) {
	id, kind, n := protowire.ConsumeTag(b)
	if n < 0 {
		return f, 0, fmt.Errorf("%w: %w", ErrCorrupt, protowire.ParseError(n))
	}
	var m int
	switch f.id = id; kind {
	case protowire.VarintType:
		f.number, m = protowire.ConsumeVarint(b[n:])
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(b[n:])
	case protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType:
		f.id, m = 0, protowire.ConsumeFieldValue(id, kind, b[n:])
	default:
		m = -1
	}
	if m < 0 {
		return f, 0, fmt.Errorf("%w: field %d: %w", ErrCorrupt, id, protowire.ParseError(m))
	}
	return f, n + m, nil
}

func setArray(dst []byte, f *field) error {
	if len(f.bytes) != len(dst) {
		return fmt.Errorf("%w: field %d has %d bytes, want %d", ErrCorrupt, f.id, len(f.bytes), len(dst))
	}
	copy(dst, f.bytes)
	return nil
}

func appendPartition(dst []byte, f protowire.Number, p *task.Partition) []byte {
	dst = protowire.AppendVarint(protowire.AppendTag(dst, f, protowire.BytesType), PartitionLen)
	return AppendPartition(dst, *p)
}

func setPartition(p *task.Partition, f *field) error {
	if len(f.bytes) != PartitionLen {
		return fmt.Errorf("%w: field %d has %d bytes, want %d", ErrCorrupt, f.id, len(f.bytes), PartitionLen)
	}
	*p = DecodePartition(f.bytes)
	return nil
}

// outcomeBits is how many low bits of the count of tasks that ended in a state are the state.
const outcomeBits = 8

// appendOutcomes appends each count with its state.
func appendOutcomes(dst []byte, f protowire.Number, o *task.Outcomes) []byte {
	for state, n := range o {
		if n > 0 {
			dst = appendVarint(dst, f, uint64(n)<<outcomeBits|uint64(state))
		}
	}
	return dst
}

func setOutcomes(o *task.Outcomes, f *field) error {
	state := f.number & (1<<outcomeBits - 1)
	if state >= uint64(len(o)) {
		return fmt.Errorf("%w: a count of state %d in the end of a group", ErrCorrupt, state)
	}
	o[state] = uint32(f.number >> outcomeBits)
	return nil
}

func tooMany(f *field, most int) error {
	return fmt.Errorf("%w: field %d has more than %d elements", ErrCorrupt, f.id, most)
}

func setUint32(dst *uint32, f *field) error {
	if f.number > math.MaxUint32 {
		return fmt.Errorf("%w: field %d is %d", ErrCorrupt, f.id, f.number)
	}
	*dst = uint32(f.number)
	return nil
}
