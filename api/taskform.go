package api

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// The bounds of the texts of an item, in bytes.
const (
	KeyBytesMax        = 256
	LimitKeyBytesMax   = 256
	CollectionBytesMax = 128
)

// CheckItem refuses an item whose texts or settings are outside what is allowed, whatever its lambda. Its tags are
// checked by task.TagsOf.
func CheckItem(item *kinesinv1.ScheduleItem) error {
	if err := checkLabel("key", item.Key, KeyBytesMax); err != nil {
		return err
	}
	if err := checkLabel("limit key", item.LimitKey, LimitKeyBytesMax); err != nil {
		return err
	}
	if err := checkLabel("collection", item.Collection, CollectionBytesMax); err != nil {
		return err
	}
	if err := task.CheckTraceparent(item.Traceparent); err != nil {
		return err
	}
	if o := overridesOf(item); o != (task.Overrides{}) {
		return o.Validate()
	}
	return nil
}

func checkLabel(what, text string, bytesMax int) error {
	if len(text) <= bytesMax && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
		return nil
	}
	return Errorf(kinesinv1.Reason_REASON_INVALID, "%s of %d bytes: want at most %d bytes of UTF-8 text without control characters", what, len(text), bytesMax)
}

// SetTask gives a task what its item says, but for its times, its priority, its tags, its payload and what follows it,
// which depend on more than the item.
func SetTask(t *task.Task, item *kinesinv1.ScheduleItem) {
	t.Key, t.LimitKey, t.Collection, t.Traceparent = item.GetKey(), item.GetLimitKey(), item.GetCollection(), item.GetTraceparent()
	t.Overrides = overridesOf(item)
}

func overridesOf(item *kinesinv1.ScheduleItem) task.Overrides {
	return task.Overrides{
		MaxAttempts: item.GetMaxAttempts(), Timeout: task.Micros(item.GetTimeout()),
		BackoffMin: task.Micros(item.GetBackoffMin()), BackoffMax: task.Micros(item.GetBackoffMax()),
	}
}

// ItemOf returns the item of which SetTask makes such a task, with its tags and its StartBefore.
func ItemOf(t *task.Task) *kinesinv1.ScheduleItem {
	return &kinesinv1.ScheduleItem{
		Key: t.Key, LimitKey: t.LimitKey, Collection: t.Collection, Traceparent: t.Traceparent,
		MaxAttempts: t.Overrides.MaxAttempts, Timeout: t.Overrides.Timeout.Microseconds(),
		BackoffMin: t.Overrides.BackoffMin.Microseconds(), BackoffMax: t.Overrides.BackoffMax.Microseconds(),
		Tags: task.TagValues(t.Tags), StartBefore: int64(t.StartBefore),
	}
}

// WireTask returns what a row alone says of a task, as users see it, without its payload and its result.
func WireTask(t *task.Task) *kinesinv1.Task {
	v := &kinesinv1.Task{
		State: t.State.String(), Collection: t.Collection, Key: t.Key, LimitKey: t.LimitKey,
		Due: int64(t.PlannedDue()), Created: int64(t.Created), Enqueued: int64(t.Enqueued),
		Started: int64(t.FirstStarted), Ended: int64(t.Ended), Next: int64(t.Wake),
		Attempt: t.Attempt, Failures: t.Failures, WorkerLost: t.Lost, Suspect: t.Suspect,
		CancelRequested: t.CancelRequested, PayloadBytes: int64(t.PayloadSize), Seq: t.Seq,
		Traceparent: t.Traceparent, Tags: task.TagValues(t.Tags), StartBefore: int64(t.StartBefore),
		ResultBytes: int64(len(t.Result)), Occurrence: WireOccurrence(t.Occurrence),
		Member: WireMember(t.Member), Group: WireGroupEnd(t.GroupEnd),
		Timeout: t.Overrides.Timeout.Microseconds(), BackoffMin: t.Overrides.BackoffMin.Microseconds(), BackoffMax: t.Overrides.BackoffMax.Microseconds(),
	}
	if t.Blob != nil {
		v.PayloadBytes = t.Blob.Bytes
	}
	return v
}

// WireClaimed returns what the row and the policy of a claimed task say, as its worker gets it, without its payload.
// Its Hold is the instant until which to hold it.
func WireClaimed(t *task.Task, policy task.Policy) *kinesinv1.Claimed {
	id := t.ID
	return &kinesinv1.Claimed{
		Task: id[:], Collection: t.Collection, Key: t.Key,
		Attempt: t.Attempt, Failures: t.Failures, MaxAttempts: policy.MaxAttempts, WorkerLost: t.Lost,
		Due: int64(t.Due), Hold: int64(t.HeldUntil()), Created: int64(t.Created), Timeout: policy.Timeout.Microseconds(),
		Blob: WireBlob(t.Blob), Traceparent: t.Traceparent, Tags: task.TagValues(t.Tags),
		Occurrence: WireOccurrence(t.Occurrence), Member: WireMember(t.Member), Group: WireGroupEnd(t.GroupEnd),
	}
}
