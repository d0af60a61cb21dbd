package sdk

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// ID is the public id of a task. It is opaque: only servers and package sqsinbound issue ids.
type ID string

// Item is a task to schedule, with its payload as bytes. A zero field means the
// lambda's default; neither At nor In means now.
type Item struct {
	Lambda     string
	Payload    []byte
	At         time.Time     // when to start; the past means now, and before 2001 is refused
	In         time.Duration // or how long from now
	Priority   string        // one of the lambda's priorities
	Collection string        // a label for a subset of the lambda's tasks
	Key        string        // idempotency key: same lambda and key, same task
	OnConflict Conflict      // what to do if a task holds the key
	// LimitKey says whose task it is, such as a customer or a tenant, for the lambda's limits by key; at most
	// 256 bytes. Empty: nobody's, and these limits do not apply. Not for ModeDeliver.
	LimitKey string

	MaxAttempts int
	Timeout     time.Duration // of one attempt
	BackoffMin  time.Duration
	BackoffMax  time.Duration

	// StartBefore is when the task expires if it has not started; zero means its lambda's StartWithin after
	// the due time. It must be after the due time. Not for ModeDeliver.
	StartBefore time.Time

	Tags        map[string]string // what its users know it by; at most 16
	Traceparent string            // W3C trace context, passed on to the handler or the consumer

	// Then follows when the task has succeeded, Else when it has ended in any other way, Finally in either
	// case. In of a follow-up counts from that end. If a task holds its Key then, it is not created. See
	// Chain.
	Then, Else, Finally []Item

	blob *task.Blob // instead of Payload
}

// Option sets a field of an Item.
type Option func(*Item)

// In starts the task after d. A zero or negative d means now.
func In(d time.Duration) Option { return func(i *Item) { i.In, i.At = d, time.Time{} } }

// At starts the task at t. The past means now; a time before 2001 is refused as a mistake of unit.
func At(t time.Time) Option { return func(i *Item) { i.At, i.In = t, 0 } }

// Priority gives the task one of its lambda's priorities.
func Priority(name string) Option { return func(i *Item) { i.Priority = name } }

// Collection labels the task as one of a subset of the lambda's tasks.
func Collection(name string) Option { return func(i *Item) { i.Collection = name } }

// Key makes the call idempotent: scheduling a second task of the lambda with the same key returns the first
// one, or ErrKeyConflict if it has another payload, priority, collection or limit key, or other follow-ups.
func Key(key string) Option { return func(i *Item) { i.Key = key } }

// LimitKey says whose task it is, such as a customer or a tenant: the lambda's limits by key apply to all
// tasks with the same one together. It is text of at most 256 bytes without control characters.
func LimitKey(key string) Option { return func(i *Item) { i.LimitKey = key } }

// Conflict says what becomes of a new task whose key is held by another one: one that lives, or, unless the
// new one replaces it, that ended as success or delivered less than its lambda's key retention ago.
type Conflict string

// The ways to treat a task that holds the key.
const (
	// ConflictKeep returns that task, or ErrKeyConflict if it has another payload, priority or collection. It
	// is the default.
	ConflictKeep Conflict = "keep"
	// ConflictReplace gives that task the payload and the time of the new one, unless a worker has it. Once
	// that task has ended the new one is a task of its own. A follow-up that replaces takes the key of a task
	// that has ended, and none of one that lives.
	ConflictReplace Conflict = "replace"
	// ConflictReject returns ErrKeyConflict.
	ConflictReject Conflict = "reject"
)

// OnConflict says what to do if a task holds the key.
func OnConflict(c Conflict) Option { return func(i *Item) { i.OnConflict = c } }

// MaxAttempts sets how many attempts may fail before the task is dead.
func MaxAttempts(n int) Option { return func(i *Item) { i.MaxAttempts = n } }

// Timeout bounds one attempt.
func Timeout(d time.Duration) Option { return func(i *Item) { i.Timeout = d } }

// Backoff sets the shortest and the longest pause before a retry.
func Backoff(shortest, longest time.Duration) Option {
	return func(i *Item) { i.BackoffMin, i.BackoffMax = shortest, longest }
}

// StartBefore has the task end as StateExpired if it has not started by then: work that is useless when it is
// late. Retries of a task that has started may be later.
func StartBefore(t time.Time) Option { return func(i *Item) { i.StartBefore = t } }

// Tag gives the task a name and a value that its users know it by. A second one of the same name replaces
// the first. A name is 1 to 64 bytes of text without "=", spaces and control characters, a value at most 256
// bytes without control characters; anything else is refused with ErrInvalid.
func Tag(name, value string) Option {
	return func(i *Item) {
		tags := make(map[string]string, len(i.Tags)+1) // of this item alone
		maps.Copy(tags, i.Tags)
		tags[name] = value
		i.Tags = tags
	}
}

// Traceparent gives the task a W3C trace context, "00-<trace id>-<parent id>-<flags>", for its handler or for
// the consumer of a deliver lambda. Anything else is refused with ErrInvalid.
func Traceparent(text string) Option { return func(i *Item) { i.Traceparent = text } }

// Result is the result of scheduling one Item.
type Result struct {
	ID        ID
	Due       time.Time
	Duplicate bool  // a task holds the key; ID is its id
	State     State // of a duplicate
	Replaced  bool  // a duplicate has the payload and the time of the item now
	Err       error // nil if the task is durable
}

func (i *Item) wire(requestID []byte) *kinesinv1.ScheduleItem {
	w := &kinesinv1.ScheduleItem{
		Lambda: i.Lambda, Payload: i.Payload, Priority: i.Priority, Collection: i.Collection, Key: i.Key, OnConflict: string(i.OnConflict), LimitKey: i.LimitKey,
		Delay: max(i.In, 0).Microseconds(), RequestId: requestID,
		MaxAttempts: uint32(min(max(i.MaxAttempts, 0), 1<<31)), Timeout: i.Timeout.Microseconds(),
		BackoffMin: i.BackoffMin.Microseconds(), BackoffMax: i.BackoffMax.Microseconds(),
		Traceparent: i.Traceparent, Tags: i.Tags, Blob: api.WireBlob(i.blob),
	}
	if len(i.Then)+len(i.Else)+len(i.Finally) > 0 {
		w.Then, w.Else, w.Finally = wireItems(i.Then), wireItems(i.Else), wireItems(i.Finally)
	}
	if !i.StartBefore.IsZero() {
		w.StartBefore = max(i.StartBefore.UnixMicro(), 1)
	}
	if !i.At.IsZero() {
		w.Due = cmp.Or(i.At.UnixMicro(), 1) // 0 would mean now
	}
	return w
}

// itemOf returns the item that wire makes w of. It refuses what a Client adds by itself.
func itemOf(w *kinesinv1.ScheduleItem) (i Item, err error) {
	if w.GetRequestId() != nil || w.GetBlob() != nil {
		return i, fmt.Errorf("%w task: request_id and blob are those of the client that schedules it", ErrInvalid)
	}
	i = Item{
		Lambda: w.GetLambda(), Payload: w.GetPayload(), At: timeOf(w.GetDue()), In: task.Micros(w.GetDelay()), Priority: w.GetPriority(),
		Collection: w.GetCollection(), Key: w.GetKey(), OnConflict: Conflict(w.GetOnConflict()), LimitKey: w.GetLimitKey(),
		MaxAttempts: int(w.GetMaxAttempts()), Timeout: task.Micros(w.GetTimeout()), BackoffMin: task.Micros(w.GetBackoffMin()), BackoffMax: task.Micros(w.GetBackoffMax()),
		StartBefore: timeOf(w.GetStartBefore()), Tags: w.GetTags(), Traceparent: w.GetTraceparent(),
	}
	for _, list := range []struct {
		to   *[]Item
		from []*kinesinv1.ScheduleItem
	}{{&i.Then, w.GetThen()}, {&i.Else, w.GetElse()}, {&i.Finally, w.GetFinally()}} {
		for _, follows := range list.from {
			one, err := itemOf(follows)
			if err != nil {
				return i, err
			}
			*list.to = append(*list.to, one)
		}
	}
	return i, nil
}

func resultOf(w *kinesinv1.ScheduleResult) Result {
	r := Result{ID: ID(w.Id), Duplicate: w.Duplicate, State: State(w.State), Replaced: w.Replaced, Err: api.ErrorOf(w.Problem)}
	if w.Due != 0 {
		r.Due = timeOf(w.Due)
	}
	return r
}

// requestIDs returns n UUIDs of version 7. They make a repeated call harmless. They take their randomness
// from the clock, so that a test can repeat them.
func requestIDs(c clock.Clock, n int) [][]byte {
	const size = 16
	all := make([]byte, n*size)
	ids := make([][]byte, n)
	millis := uint64(c.Now().Millis())
	for i := range ids {
		id := all[i*size : (i+1)*size : (i+1)*size]
		binary.BigEndian.PutUint64(id[:8], millis<<16|c.Uint64()&0xfff|0x7000)
		binary.BigEndian.PutUint64(id[8:], c.Uint64()&(1<<62-1)|1<<63)
		ids[i] = id
	}
	return ids
}

func timeOf(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return time.UnixMicro(micros).UTC()
}
