package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

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

func (f *field) instant() task.Instant   { return task.Instant(f.number) }
func (f *field) duration() time.Duration { return time.Duration(f.number) }

// nextField reads one field and returns its length. A field of another type has id 0.
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

// eachField calls set with each field of a message.
func eachField(b []byte, set func(f *field) error) error {
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if err := set(&f); err != nil {
			return err
		}
	}
	return nil
}

func setArray[A ~[16]byte](dst *A, f *field) error {
	if len(f.bytes) != 16 {
		return fmt.Errorf("%w: field %d has %d bytes, want 16", ErrCorrupt, f.id, len(f.bytes))
	}
	*dst = A(f.bytes)
	return nil
}

func setUint32(dst *uint32, f *field) error {
	if f.number > math.MaxUint32 {
		return fmt.Errorf("%w: field %d is %d", ErrCorrupt, f.id, f.number)
	}
	*dst = uint32(f.number)
	return nil
}
