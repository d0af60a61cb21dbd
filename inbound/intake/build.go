package intake

import (
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Build makes the task that an item asks for, except for its id and its due time.
func (b *Batch) Build(l *catalog.Entry, item *kinesinv1.ScheduleItem) (*task.Task, error) {
	t := &task.Task{State: task.Scheduled, Seq: 1, Created: b.Now}
	api.SetTask(t, item)
	t.Partition.Lambda = l.Ref
	var err error
	if t.Partition.Priority, err = l.Priority(item.Priority); err != nil {
		return t, err
	}
	if err := api.CheckItem(item); err != nil {
		return t, err
	}
	if n, most := len(item.Payload), b.Store.PayloadBytesMax(); n > most {
		return t, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "payload of %d bytes: at most %d are allowed", n, most)
	}
	if err := setBlob(l, t, item); err != nil {
		return t, err
	}
	if err := checkOnConflict(item); err != nil {
		return t, err
	}
	if t.Request, err = b.ownRequestID(t, item); err != nil {
		return t, err
	}
	if t.Tags, err = task.TagsOf(item.Tags); err != nil {
		return t, err
	}
	if l.Mode == task.Deliver {
		if err := b.checkDeliverable(l, t, item); err != nil {
			return t, err
		}
	}
	t.PayloadSize = uint32(len(item.Payload))
	if len(item.Payload) <= b.Store.PayloadInlineMax() {
		t.Payload = item.Payload
	}
	return t, nil
}

// setBlob gives a task the blob of its item. It needs a key, because a task with a key has a row from the
// start, which says that the blob is needed.
func setBlob(l *catalog.Entry, t *task.Task, item *kinesinv1.ScheduleItem) (err error) {
	if t.Blob, err = BlobFor(l, item.Blob, item.Payload); t.Blob != nil && item.Key == "" {
		return refusal.Invalid("a task whose payload is a blob needs a key")
	}
	return err
}

// BlobFor returns a blob that is to be the payload of a task of a lambda; nil for none.
func BlobFor(l *catalog.Entry, w *kinesinv1.Blob, payload []byte) (*task.Blob, error) {
	blob, err := api.BlobOf(w)
	switch {
	case err != nil || blob == nil:
		return nil, err
	case len(payload) > 0:
		return nil, refusal.Invalid("a task has a payload or a blob, not both")
	case l.Mode == task.Deliver:
		return nil, refusal.Invalid("lambda %s is of mode deliver: its consumers cannot read blobs, so a payload has to fit its queue", l.Name)
	}
	return blob, nil
}

// SetExpiry sets when a task that Build made expires unless it has started, by its item or else by its
// lambda. The caller has set the due time, which comes first.
func (b *Batch) SetExpiry(l *catalog.Entry, t *task.Task, item *kinesinv1.ScheduleItem) error {
	switch {
	case item.StartBefore != 0:
		t.StartBefore = task.Instant(item.StartBefore)
	case l.StartWithin > 0:
		t.StartBefore = t.Due.Add(l.StartWithin)
	}
	if t.StartBefore.IsZero() || t.StartBefore > t.Due {
		return nil
	}
	return refusal.Invalid("start before %s is not after the due time %s: the task could never start",
		t.StartBefore.Time().UTC().Format(time.RFC3339Nano), t.Due.Time().UTC().Format(time.RFC3339Nano))
}

// BufferedTask is the inverse of Build, for a task without a key: it returns the message by which the task is taken in
// again.
func (in *Intake) BufferedTask(l *catalog.Entry, t *task.Task, payload []byte) *kinesinv1.BufferedTask {
	item := api.ItemOf(t)
	item.Lambda, item.Priority, item.Payload = l.Name, l.Priorities[t.Partition.Priority], payload
	return &kinesinv1.BufferedTask{Id: in.Sealer.SealTask(t), Accepted: int64(t.Created), Item: item}
}

// CheckHorizon refuses a due time that is too far ahead.
func (b *Batch) CheckHorizon(due task.Instant) error {
	const year = 365 * 24 * time.Hour
	switch {
	case due <= b.Now.Add(b.Horizon):
		return nil
	case b.Horizon%year == 0:
		return refusal.Invalid("due time is too far ahead: at most %d years (of 365 days)", b.Horizon/year)
	}
	return refusal.Invalid("due time is too far ahead: at most %s", b.Horizon)
}

// What becomes of a new task whose key another task has.
const (
	conflictKeep = "keep" // also if the item does not say: the call answers with the task that has the key
	// ConflictReplace has the new task replace a live task, or take the key of an ended one.
	ConflictReplace = "replace"
	// ConflictReject refuses the new task.
	ConflictReject = "reject"
)

func checkOnConflict(item *kinesinv1.ScheduleItem) error {
	switch item.OnConflict {
	case "", conflictKeep:
		return nil
	case ConflictReplace, ConflictReject:
		if item.Key == "" {
			return refusal.Invalid("on_conflict %s needs a key", item.OnConflict)
		}
		return nil
	}
	return refusal.Invalid("on_conflict %q: want keep, replace or reject", item.OnConflict)
}
