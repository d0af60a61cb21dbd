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

// A row is a fixed header, which a driver can check conditions against without
// decoding the rest, and then fields in protobuf wire format:
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
// A field that is unknown to a reader is skipped and not kept when the row is written
// again. So a release that adds a field must be able to read it one release before
// any release writes it; a change that an older reader must not skip raises the version.
//
// Rows of version 1 had no wake-up row of their own; they are refused with ErrOldForm.
const (
	rowVersion     = 2
	headerLen      = 25
	headerEndLen   = 16
	headerApartLen = 16
	// rowApart is set in the byte of the state when the wake-up row is not at (wake, seq).
	rowApart = 0x80
	// controlVersion is the format of control rows, which have a header of their own.
	controlVersion = 1
)

// The fields after the header.
const (
	fieldID protowire.Number = iota + 1
	fieldDue
	fieldCreated
	fieldCollection
	fieldKey
	fieldDigest
	fieldPayload
	fieldPayloadSize
	fieldMaxAttempts
	fieldTimeout
	fieldBackoffMin
	fieldBackoffMax
	fieldAttempt
	fieldFailures
	fieldLost
	fieldBlamed
	fieldEnqueues
	fieldFlags
	fieldWorker
	fieldEnqueued
	fieldClaimedAt
	fieldStarted
	fieldFirstStarted
	fieldEnded    // only outside an end
	fieldExpireAt // only outside an end
	fieldHistory
	fieldTraceparent
)

// The fields of an entry of the history.
const (
	attemptNumber protowire.Number = iota + 1
	attemptWorker
	attemptStart
	attemptEnd
	attemptOutcome
	attemptError
)

const (
	flagSuspect = 1 << iota
	flagCancelRequested
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

// HeaderOf is the header of the row that t is stored as.
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

// AppendTask appends the encoded form of t, of a wake-up row as of a task row. It allocates only to grow dst.
func AppendTask(dst []byte, t *task.Task) []byte {
	state, apart := byte(t.State), t.WakeRow != task.WakeRow{At: t.Wake, Seq: t.Seq}
	if apart {
		state |= rowApart
	}
	dst = append(dst, rowVersion, state)
	dst = binary.BigEndian.AppendUint64(dst, t.Seq)
	dst = appendInstant(dst, t.Wake)
	dst = AppendPartition(dst, t.Partition)
	ended := t.State.IsEnd()
	if ended {
		dst = appendInstant(dst, t.Ended)
		dst = appendInstant(dst, t.ExpireAt)
	}
	if apart {
		dst = appendInstant(dst, t.WakeRow.At)
		dst = binary.BigEndian.AppendUint64(dst, t.WakeRow.Seq)
	}
	dst = appendIdentity(dst, t)
	dst = appendProgress(dst, t)
	if !ended {
		dst = appendVarint(dst, fieldEnded, uint64(t.Ended))
		dst = appendVarint(dst, fieldExpireAt, uint64(t.ExpireAt))
	}
	for i := range t.History {
		dst = appendAttempt(dst, &t.History[i])
	}
	return dst
}

// appendIdentity appends what never changes in the life of a task.
func appendIdentity(dst []byte, t *task.Task) []byte {
	dst = protowire.AppendTag(dst, fieldID, protowire.BytesType)
	dst = protowire.AppendBytes(dst, t.ID[:])
	dst = appendVarint(dst, fieldDue, uint64(t.Due))
	dst = appendVarint(dst, fieldCreated, uint64(t.Created))
	dst = appendString(dst, fieldCollection, t.Collection)
	dst = appendString(dst, fieldKey, t.Key)
	if t.Digest != ([16]byte{}) {
		dst = protowire.AppendTag(dst, fieldDigest, protowire.BytesType)
		dst = protowire.AppendBytes(dst, t.Digest[:])
	}
	if len(t.Payload) > 0 {
		dst = protowire.AppendTag(dst, fieldPayload, protowire.BytesType)
		dst = protowire.AppendBytes(dst, t.Payload)
	}
	dst = appendVarint(dst, fieldPayloadSize, uint64(t.PayloadSize))
	if o := &t.Overrides; *o != (task.Overrides{}) {
		dst = appendVarint(dst, fieldMaxAttempts, uint64(o.MaxAttempts))
		dst = appendVarint(dst, fieldTimeout, uint64(o.Timeout))
		dst = appendVarint(dst, fieldBackoffMin, uint64(o.BackoffMin))
		dst = appendVarint(dst, fieldBackoffMax, uint64(o.BackoffMax))
	}
	return appendString(dst, fieldTraceparent, t.Traceparent)
}

func appendProgress(dst []byte, t *task.Task) []byte {
	flags := uint64(0)
	if t.Suspect {
		flags |= flagSuspect
	}
	if t.CancelRequested {
		flags |= flagCancelRequested
	}
	dst = appendVarint(dst, fieldAttempt, uint64(t.Attempt))
	dst = appendVarint(dst, fieldFailures, uint64(t.Failures))
	dst = appendVarint(dst, fieldLost, uint64(t.Lost))
	dst = appendVarint(dst, fieldBlamed, uint64(t.Blamed))
	dst = appendVarint(dst, fieldEnqueues, uint64(t.Enqueues))
	dst = appendVarint(dst, fieldFlags, flags)
	dst = appendString(dst, fieldWorker, t.Worker)
	dst = appendVarint(dst, fieldEnqueued, uint64(t.Enqueued))
	dst = appendVarint(dst, fieldClaimedAt, uint64(t.ClaimedAt))
	dst = appendVarint(dst, fieldStarted, uint64(t.Started))
	return appendVarint(dst, fieldFirstStarted, uint64(t.FirstStarted))
}

func appendAttempt(dst []byte, a *task.Attempt) []byte {
	dst = protowire.AppendTag(dst, fieldHistory, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(attemptSize(a)))
	dst = appendVarint(dst, attemptNumber, uint64(a.Number))
	dst = appendString(dst, attemptWorker, a.Worker)
	dst = appendVarint(dst, attemptStart, uint64(a.Start))
	dst = appendVarint(dst, attemptEnd, uint64(a.End))
	dst = appendVarint(dst, attemptOutcome, uint64(a.Outcome))
	return appendString(dst, attemptError, a.Error)
}

func attemptSize(a *task.Attempt) int {
	return varintSize(uint64(a.Number)) + stringSize(a.Worker) +
		varintSize(uint64(a.Start)) + varintSize(uint64(a.End)) +
		varintSize(uint64(a.Outcome)) + stringSize(a.Error)
}

func appendInstant(dst []byte, i task.Instant) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

func decodeInstant(b []byte) task.Instant { return task.Instant(binary.BigEndian.Uint64(b)) }

// appendVarint appends a field, unless it is zero. Field numbers of a task need up to two bytes of tag.
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

// varintSize and stringSize are for fields with a tag of one byte.
func varintSize(v uint64) int {
	if v == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(v)
}

func stringSize(v string) int {
	if v == "" {
		return 0
	}
	return 1 + protowire.SizeBytes(len(v))
}

// DecodeTask reads what AppendTask wrote. Payload of the result is a part of row; everything else is copied.
// It returns ErrVersion for a row of a newer format, ErrOldForm for one of an older, ErrCorrupt for one that
// fails its checks, as a bare row does.
func DecodeTask(row []byte) (task.Task, error) {
	t, err := DecodeWakeup(row)
	if err == nil && t.IsBare() {
		return task.Task{}, fmt.Errorf("%w: task row in state %d", ErrCorrupt, t.State)
	}
	return t, err
}

// DecodeWakeup is DecodeTask of a wake-up row, which may be bare.
func DecodeWakeup(row []byte) (task.Task, error) {
	var t task.Task
	if err := decodeTask(&t, row); err != nil {
		return task.Task{}, err
	}
	return t, nil
}

func decodeTask(t *task.Task, row []byte) error {
	h, rest, err := decodeHeader(row)
	if err != nil {
		return err
	}
	t.State, t.Seq, t.Wake, t.WakeRow, t.Partition = h.State, h.Seq, h.Wake, h.WakeRow, h.Partition
	t.Ended, t.ExpireAt = h.Ended, h.ExpireAt
	if !t.State.IsStored() && !t.IsBare() {
		return fmt.Errorf("%w: row in state %d", ErrCorrupt, h.State)
	}
	if err := decodeFields(t, rest); err != nil {
		return err
	}
	if t.ID.IsZero() {
		return fmt.Errorf("%w: row without an id", ErrCorrupt)
	}
	return nil
}

// field is one decoded field: number holds varints, bytes the rest.
type field struct {
	id     protowire.Number
	number uint64
	bytes  []byte
}

// decodeFields sets every varint and bytes field of t, and skips those of other types.
func decodeFields(t *task.Task, b []byte) error {
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if err := setField(t, &f); err != nil {
			return err
		}
	}
	return nil
}

// nextField reads one field and says how long it is; the id of one of another type is 0.
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

// setField sets one field. The switch is one jump table, on the path of every row that is read.
func setField(t *task.Task, f *field) error { //nolint:cyclop // a table
	switch f.id {
	case fieldID:
		return setArray(&t.ID, f)
	case fieldDue:
		t.Due = f.instant()
	case fieldCreated:
		t.Created = f.instant()
	case fieldCollection:
		t.Collection = string(f.bytes)
	case fieldKey:
		t.Key = string(f.bytes)
	case fieldDigest:
		return setArray(&t.Digest, f)
	case fieldPayload:
		t.Payload = slices.Clip(f.bytes)
	case fieldPayloadSize:
		return setUint32(&t.PayloadSize, f)
	case fieldMaxAttempts:
		return setUint32(&t.Overrides.MaxAttempts, f)
	case fieldTimeout:
		t.Overrides.Timeout = f.duration()
	case fieldBackoffMin:
		t.Overrides.BackoffMin = f.duration()
	case fieldBackoffMax:
		t.Overrides.BackoffMax = f.duration()
	case fieldAttempt:
		return setUint32(&t.Attempt, f)
	case fieldFailures:
		return setUint32(&t.Failures, f)
	case fieldLost:
		return setUint32(&t.Lost, f)
	case fieldBlamed:
		return setUint32(&t.Blamed, f)
	case fieldEnqueues:
		return setUint32(&t.Enqueues, f)
	case fieldFlags:
		t.Suspect, t.CancelRequested = f.number&flagSuspect != 0, f.number&flagCancelRequested != 0
	case fieldWorker:
		t.Worker = string(f.bytes)
	case fieldEnqueued:
		t.Enqueued = f.instant()
	case fieldClaimedAt:
		t.ClaimedAt = f.instant()
	case fieldStarted:
		t.Started = f.instant()
	case fieldFirstStarted:
		t.FirstStarted = f.instant()
	case fieldEnded:
		t.Ended = f.instant()
	case fieldExpireAt:
		t.ExpireAt = f.instant()
	case fieldHistory:
		return addAttempt(t, f.bytes)
	case fieldTraceparent:
		t.Traceparent = string(f.bytes)
	}
	return nil
}

func addAttempt(t *task.Task, b []byte) error {
	if len(t.History) >= task.HistoryMax {
		return fmt.Errorf("%w: more than %d attempts in a task row", ErrCorrupt, task.HistoryMax)
	}
	t.History = append(t.History, task.Attempt{})
	a := &t.History[len(t.History)-1]
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		if err := setAttempt(a, &f); err != nil {
			return err
		}
	}
	return nil
}

func setAttempt(a *task.Attempt, f *field) error {
	switch f.id {
	case attemptNumber:
		return setUint32(&a.Number, f)
	case attemptWorker:
		a.Worker = string(f.bytes)
	case attemptStart:
		a.Start = f.instant()
	case attemptEnd:
		a.End = f.instant()
	case attemptOutcome:
		a.Outcome = task.Outcome(f.number)
	case attemptError:
		a.Error = string(f.bytes)
	}
	return nil
}

func (f *field) instant() task.Instant   { return task.Instant(f.number) }
func (f *field) duration() time.Duration { return time.Duration(f.number) }

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

// AppendControl appends the encoded value of a control row; kind and name are its key.
func AppendControl(dst []byte, c *Control) []byte {
	dst = append(dst, controlVersion)
	dst = binary.BigEndian.AppendUint64(dst, c.Version)
	return append(dst, c.Value...)
}

// DecodeControl reads what AppendControl wrote; Value of the result is a part of row.
func DecodeControl(kind, name string, row []byte) (Control, error) {
	if len(row) > 0 && row[0] > controlVersion {
		return Control{}, fmt.Errorf("%w: control row %s %q has format %d, this program knows up to %d", ErrVersion, kind, name, row[0], controlVersion)
	}
	if len(row) < 9 || row[0] == 0 {
		return Control{}, fmt.Errorf("%w: control row %s %q of %d bytes", ErrCorrupt, kind, name, len(row))
	}
	return Control{Kind: kind, Name: name, Version: binary.BigEndian.Uint64(row[1:]), Value: row[9:]}, nil
}
