package store

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/task"
)

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
