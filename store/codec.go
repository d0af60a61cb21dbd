package store

import (
	"encoding/binary"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

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
	fieldTag
	fieldLife
	fieldStartBefore
	fieldResult
	fieldFirstDue
	fieldPayloadRev
	fieldBlob
	fieldRequest
	fieldRedriveRequest
	fieldLimitKey
	fieldOccurrence

	fieldFirstPartition protowire.Number = 45

	fieldMember   protowire.Number = 60
	fieldGroupEnd protowire.Number = 61
)

// fieldChain is the place of a task in a chain.
const fieldChain protowire.Number = 50

// The fields of a chain.
const (
	chainRoot protowire.Number = iota + 1
	chainParent
	chainOnEdge
	chainIndex
	chainDepth
	chainRound
	chainPaused
	chainPausedDue
	chainFollow
	chainFollowID
	chainFollowBytes
	chainFollowCount
	chainOutcome
	chainFromParent
	chainAddedThen
	chainAddedElse
	chainAddedFinally

	chainHeld        protowire.Number = 210
	chainStartBefore protowire.Number = 211
	chainFollowSum   protowire.Number = 310
)

// The fields of a link.
const (
	linkID protowire.Number = iota + 1
	linkPartition
	linkDue
	linkLife
)

// The fields of a follow-up whose key another task held.
const (
	heldEdge protowire.Number = iota + 1
	heldIndex
	heldHolder
)

// The fields of a tag.
const (
	tagName protowire.Number = iota + 1
	tagValue
)

// The fields of a blob.
const (
	blobID protowire.Number = iota + 1
	blobBytes
	blobSHA256
)

// The fields of an occurrence.
const (
	occurrenceCron protowire.Number = iota + 1
	occurrenceLife
	occurrenceRevision
	occurrenceNominal
	occurrenceBeforeRevision
	occurrenceBefore
	occurrenceRanRevision
	occurrenceRan
	occurrenceFailed
	occurrenceSucceeded

	occurrenceBackfill protowire.Number = 70
)

// The fields of a member of a group.
const (
	memberGroup protowire.Number = iota + 1
	memberIndex
	memberUntil
	memberTry
)

// The fields of the end of a group. Each count is the state and the number.
const (
	groupEndGroup protowire.Number = iota + 1
	groupEndMembers
	groupEndCount
	groupEndExpired
	groupEndCancelled
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
	flagForgotten
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

// appendIdentity appends the fields that never change.
func appendIdentity(dst []byte, t *task.Task) []byte {
	dst = protowire.AppendTag(dst, fieldID, protowire.BytesType)
	dst = protowire.AppendBytes(dst, t.ID[:])
	dst = appendVarint(dst, fieldDue, uint64(t.Due))
	dst = appendVarint(dst, fieldCreated, uint64(t.Created))
	dst = appendString(dst, fieldCollection, t.Collection)
	dst = appendString(dst, fieldKey, t.Key)
	dst = appendString(dst, fieldLimitKey, t.LimitKey)
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
	dst = appendString(dst, fieldTraceparent, t.Traceparent)
	dst = appendVarint(dst, fieldLife, t.Life)
	if !t.Request.IsZero() {
		dst = protowire.AppendTag(dst, fieldRequest, protowire.BytesType)
		dst = protowire.AppendBytes(dst, t.Request[:])
	}
	if !t.RedriveRequest.IsZero() {
		dst = protowire.AppendTag(dst, fieldRedriveRequest, protowire.BytesType)
		dst = protowire.AppendBytes(dst, t.RedriveRequest[:])
	}
	dst = appendVarint(dst, fieldFirstDue, uint64(t.FirstDue))
	if p := t.FirstPartition; p != (task.Partition{}) {
		dst = protowire.AppendTag(dst, fieldFirstPartition, protowire.BytesType)
		dst = AppendPartition(protowire.AppendVarint(dst, PartitionLen), p)
	}
	dst = appendVarint(dst, fieldPayloadRev, t.PayloadRev)
	if t.Blob != nil {
		dst = appendBlob(dst, t.Blob)
	}
	if t.Occurrence != nil {
		dst = appendOccurrence(dst, t.Occurrence)
	}
	if t.Chain != nil {
		dst = appendChain(dst, t.Chain)
	}
	if t.Member != nil {
		dst = appendMember(dst, t.Member)
	}
	if t.GroupEnd != nil {
		dst = appendGroupEnd(dst, t.GroupEnd)
	}
	dst = appendVarint(dst, fieldStartBefore, uint64(t.StartBefore))
	for i := range t.Tags {
		dst = appendTag(dst, &t.Tags[i])
	}
	return dst
}

func appendBlob(dst []byte, b *task.Blob) []byte {
	dst = protowire.AppendTag(dst, fieldBlob, protowire.BytesType)
	start := len(dst)
	dst = protowire.AppendBytes(protowire.AppendTag(dst, blobID, protowire.BytesType), b.ID[:])
	dst = appendVarint(dst, blobBytes, uint64(b.Bytes))
	return insertLength(protowire.AppendBytes(protowire.AppendTag(dst, blobSHA256, protowire.BytesType), b.SHA256[:]), start)
}

func appendOccurrence(dst []byte, o *task.Occurrence) []byte {
	dst = protowire.AppendTag(dst, fieldOccurrence, protowire.BytesType)
	start := len(dst)
	dst = appendString(dst, occurrenceCron, o.Cron)
	dst = appendVarint(dst, occurrenceLife, uint64(o.Life))
	dst = appendVarint(dst, occurrenceRevision, o.At.Revision)
	dst = appendVarint(dst, occurrenceNominal, uint64(o.At.Nominal))
	dst = appendVarint(dst, occurrenceBeforeRevision, o.Before.Revision)
	dst = appendVarint(dst, occurrenceBefore, uint64(o.Before.Nominal))
	dst = appendVarint(dst, occurrenceRanRevision, o.Ran.Revision)
	dst = appendVarint(dst, occurrenceRan, uint64(o.Ran.Nominal))
	dst = appendVarint(dst, occurrenceFailed, uint64(o.Failed))
	dst = appendVarint(dst, occurrenceSucceeded, uint64(o.Succeeded))
	if o.Backfill {
		dst = appendVarint(dst, occurrenceBackfill, 1)
	}
	return insertLength(dst, start)
}

func appendTag(dst []byte, tag *task.Tag) []byte {
	dst = protowire.AppendTag(dst, fieldTag, protowire.BytesType)
	start := len(dst)
	dst = appendString(dst, tagName, tag.Name)
	return insertLength(appendString(dst, tagValue, tag.Value), start)
}

// insertLength inserts the length of what follows start.
func insertLength(dst []byte, start int) []byte {
	var size [binary.MaxVarintLen64]byte
	return slices.Insert(dst, start, protowire.AppendVarint(size[:0], uint64(len(dst)-start))...)
}

func appendProgress(dst []byte, t *task.Task) []byte {
	flags := uint64(0)
	if t.Suspect {
		flags |= flagSuspect
	}
	if t.CancelRequested {
		flags |= flagCancelRequested
	}
	if t.Forgotten {
		flags |= flagForgotten
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
	dst = appendVarint(dst, fieldFirstStarted, uint64(t.FirstStarted))
	if len(t.Result) > 0 {
		dst = protowire.AppendTag(dst, fieldResult, protowire.BytesType)
		dst = protowire.AppendBytes(dst, t.Result)
	}
	return dst
}

// appendAttempt encodes the attempt in place and then inserts its length.
func appendAttempt(dst []byte, a *task.Attempt) []byte {
	dst = protowire.AppendTag(dst, fieldHistory, protowire.BytesType)
	start := len(dst)
	dst = appendVarint(dst, attemptNumber, uint64(a.Number))
	dst = appendString(dst, attemptWorker, a.Worker)
	dst = appendVarint(dst, attemptStart, uint64(a.Start))
	dst = appendVarint(dst, attemptEnd, uint64(a.End))
	dst = appendVarint(dst, attemptOutcome, uint64(a.Outcome))
	return insertLength(appendString(dst, attemptError, a.Error), start)
}

func appendInstant(dst []byte, i task.Instant) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(i))
}

func decodeInstant(b []byte) task.Instant { return task.Instant(binary.BigEndian.Uint64(b)) }

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
