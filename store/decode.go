package store

import (
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

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

// DecodeWakeup is DecodeTask for a wake-up row, which may be bare.
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

// decodeFields sets the varint and bytes fields of t, and skips fields of other types.
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

// setField sets one field. The switch compiles to a jump table, because every read of a row comes here.
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
	case fieldLimitKey:
		t.LimitKey = string(f.bytes)
	case fieldOccurrence:
		return setOccurrence(t, f.bytes)
	case fieldChain:
		return setChain(t, f.bytes)
	case fieldMember:
		return setMember(t, f.bytes)
	case fieldGroupEnd:
		return setGroupEnd(t, f.bytes)
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
		t.Forgotten = f.number&flagForgotten != 0
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
	case fieldTag:
		return addTag(t, f.bytes)
	case fieldFirstDue:
		t.FirstDue = f.instant()
	case fieldFirstPartition:
		if len(f.bytes) != PartitionLen {
			return fmt.Errorf("%w: field %d has %d bytes, want %d", ErrCorrupt, f.id, len(f.bytes), PartitionLen)
		}
		t.FirstPartition = DecodePartition(f.bytes)
	case fieldPayloadRev:
		t.PayloadRev = f.number
	case fieldLife:
		t.Life = f.number
	case fieldRequest:
		return setArray(&t.Request, f)
	case fieldRedriveRequest:
		return setArray(&t.RedriveRequest, f)
	case fieldStartBefore:
		t.StartBefore = f.instant()
	case fieldBlob:
		return setBlob(t, f.bytes)
	case fieldResult:
		t.Result = slices.Clone(f.bytes)
	}
	return nil
}

func setBlob(t *task.Task, b []byte) error {
	t.Blob = &task.Blob{}
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		switch f.id {
		case blobID:
			err = setArray(&t.Blob.ID, &f)
		case blobBytes:
			t.Blob.Bytes = int64(f.number)
		case blobSHA256:
			if len(f.bytes) != len(t.Blob.SHA256) {
				err = fmt.Errorf("%w: the digest of a blob has %d bytes", ErrCorrupt, len(f.bytes))
			}
			copy(t.Blob.SHA256[:], f.bytes)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func setOccurrence(t *task.Task, b []byte) error {
	o := &task.Occurrence{}
	t.Occurrence = o
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		switch f.id {
		case occurrenceCron:
			o.Cron = string(f.bytes)
		case occurrenceLife:
			o.Life = f.instant()
		case occurrenceRevision:
			o.At.Revision = f.number
		case occurrenceNominal:
			o.At.Nominal = f.instant()
		case occurrenceBeforeRevision:
			o.Before.Revision = f.number
		case occurrenceBefore:
			o.Before.Nominal = f.instant()
		case occurrenceRanRevision:
			o.Ran.Revision = f.number
		case occurrenceRan:
			o.Ran.Nominal = f.instant()
		case occurrenceFailed:
			err = setUint32(&o.Failed, &f)
		case occurrenceSucceeded:
			o.Succeeded = f.instant()
		case occurrenceBackfill:
			o.Backfill = f.number != 0
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func addTag(t *task.Task, b []byte) error {
	if len(t.Tags) >= task.TagsMax {
		return fmt.Errorf("%w: more than %d tags in a task row", ErrCorrupt, task.TagsMax)
	}
	t.Tags = append(t.Tags, task.Tag{})
	tag := &t.Tags[len(t.Tags)-1]
	for len(b) > 0 {
		f, n, err := nextField(b)
		if err != nil {
			return err
		}
		b = b[n:]
		switch f.id {
		case tagName:
			tag.Name = string(f.bytes)
		case tagValue:
			tag.Value = string(f.bytes)
		}
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
