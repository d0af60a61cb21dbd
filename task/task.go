// Package task is the domain: tasks and lambdas, the state machine of a task, and the rules of its retries.
// All of it is a pure function of its arguments, without I/O, clock or randomness. It imports only the
// standard library.
package task

import (
	"encoding/binary"
	"strings"
	"time"
)

// HistoryMax is how many of its latest attempts a task remembers.
const HistoryMax = 10

// ErrorBytesMax bounds the error text kept for an attempt: errorHeadBytesMax for what failed, and errorTailBytesMax
// for what it said, whose end has the cause.
const (
	ErrorBytesMax     = errorHeadBytesMax + errorTailBytesMax
	errorHeadBytesMax = 64
	errorTailBytesMax = 1024
)

// ErrorText returns what is kept of an error text: of a longer one than ErrorBytesMax its first bytes and its last ones,
// with … between, as valid UTF-8.
func ErrorText(text string) string {
	const between = "…"
	if len(text) > ErrorBytesMax {
		head, tail := text[:errorHeadBytesMax-len(between)], text[len(text)-errorTailBytesMax:]
		text = strings.ToValidUTF8(head, "") + between + tail
	}
	return strings.ToValidUTF8(text, "")
}

// ResultBytesMax bounds the value of a success that is kept with its task, in bytes.
const ResultBytesMax = 32 << 10

// Task is one unit of work of a lambda, as it is stored. A Task is a value: Apply returns a changed copy,
// which shares Payload with the original. Nobody may write to Payload.
//
// The tags are the numbers of the fields in rows, which have them in the order in which they stand here: tools/rows makes
// the code of that. A new field gets a number that no field ever had; the next one is 62.
type Task struct {
	ID        ID        `row:"1,always"`
	Partition Partition `row:"-"`
	State     State     `row:"-"`
	Seq       uint64    `row:"-"` // rises at every stored change; the compare-and-set value
	Wake      Instant   `row:"-"` // its next wake-up; zero when it has ended
	// WakeRow identifies the wake-up row of a task row. It stays when the task ends, so that a leftover row
	// is recognised. In a wake-up row it is the value that the task row will have.
	WakeRow WakeRow `row:"-"`

	Due     Instant `row:"2"` // when it should first start; whole milliseconds
	Created Instant `row:"3"`

	Collection string `row:"4"`
	Key        string `row:"5"` // idempotency key, empty for none
	// LimitKey says whose task it is, for the limits by key of its lambda, and decides its shard. It never
	// changes. Empty: nobody's, and no such limit applies.
	LimitKey string `row:"37"`
	// Digest identifies lambda, priority, collection and payload of a task with a key, so that the same key
	// with another payload is detected, and of a task whose payload was replaced. Zero for others.
	Digest [16]byte `row:"6"`

	Payload     []byte `row:"7,alias"` // nil if it is in a payload row
	PayloadSize uint32 `row:"8"`       // size in bytes, wherever it is stored

	Overrides Overrides `row:"9,inline"` // per-task settings; zero means the lambda's
	// Traceparent is the W3C trace context of the caller that scheduled the task (see CheckTraceparent), or
	// empty.
	Traceparent string `row:"27"`
	// Life is the seq with which the task with this key began, and part of its public id: an ended task's key
	// may be used again, and the ids of the earlier task do not name the later one. Zero without a key, and
	// in rows of versions that did not know it.
	Life uint64 `row:"29"`
	// Request is the request id of the Schedule call that made the task with this key, or replaced it last: a
	// late try of that call must not make the next one. Zero without a key, and where the caller gave none.
	Request ID `row:"35"`
	// RedriveRequest is the request id of the Redrive call that had the task start anew last: a late try of
	// that call must not have it start once more. Zero where none did, or it had no id.
	RedriveRequest ID `row:"36"`
	// FirstDue is the due time with which it was scheduled, which its public id has; zero: Due, which never
	// changed.
	FirstDue Instant `row:"32"`
	// FirstPartition is the partition in which it was scheduled, which its public id has; zero: Partition,
	// which never changed.
	FirstPartition Partition `row:"45"`
	// PayloadRev is the seq of the row whose payload this one replaced; 0: it is the first payload of its id.
	PayloadRev uint64 `row:"33"`
	// Blob says which blob the payload is; nil: it is Payload, or in a payload row.
	Blob *Blob `row:"34"`
	// Occurrence says which occurrence of a cron it is; nil: it is none.
	Occurrence *Occurrence `row:"38"`
	// Chain is its place in a chain and what follows it; nil: it is in none.
	Chain *Chain `row:"50"`
	// Member says which member of a group it is, and GroupEnd after which group it follows; nil: of none.
	Member   *Member   `row:"60"`
	GroupEnd *GroupEnd `row:"61"`
	// StartBefore is when the task expires if it never started; zero: never.
	StartBefore Instant `row:"30"`
	Tags        []Tag   `row:"28,max=TagsMax"` // in order of their names, at most TagsMax

	Attempt  uint32 `row:"13"`       // the newest attempt's number: the fencing value, rises at every claim
	Failures uint32 `row:"14"`       // attempts that failed in the user's code; these count against MaxAttempts
	Lost     uint32 `row:"15"`       // attempts whose worker was lost; these do not count
	Blamed   uint32 `row:"16"`       // losses while it was a suspect and outside quarantine; from the first on it runs in quarantine
	Enqueues uint32 `row:"17"`       // sends since the last claim, which lengthen the enqueue timeout; in state Acquired, times it was acquired
	Suspect  bool   `row:"18,bit=0"` // its worker was lost, and no attempt has ended in a live process since

	CancelRequested bool `row:"18,bit=1"` // a cancel came while it ran
	// Forgotten says that the task was deleted: readers do not see it, and its ended row stays until ExpireAt
	// to refuse a second start.
	Forgotten bool `row:"18,bit=2"`

	Worker       string  `row:"19"` // owner of the newest attempt; process that acquired or enqueued it
	Enqueued     Instant `row:"20"`
	ClaimedAt    Instant `row:"21"`      // when it was claimed or acquired
	Started      Instant `row:"22"`      // start of the newest attempt, zero if unknown
	FirstStarted Instant `row:"23"`      // start of the first attempt
	Result       []byte  `row:"31"`      // value of a success, at most ResultBytesMax; nil for none
	Ended        Instant `row:"24,live"` // when it reached its end
	ExpireAt     Instant `row:"25,live"` // when an ended row may be deleted

	History []Attempt `row:"26,max=HistoryMax"` // oldest first, at most HistoryMax
}

// WakeRow is the time of a wake-up row in its partition, and the seq at which it was put. A row with a lower
// seq at the same time is an older version.
type WakeRow struct {
	At  Instant
	Seq uint64
}

// IsBare reports whether a wake-up row holds only the id of its task, which then has a task row.
func (t *Task) IsBare() bool { return t.State == Unknown }

// Undispatched returns the task of a wake-up row as it was before it was dispatched. A task that is enqueued
// or claimed when it is stored has such a wake-up row even if its task row was never written.
func (t Task) Undispatched() Task {
	if t.State != Scheduled && t.State != Acquired {
		t.State, t.Seq, t.Wake = Scheduled, t.WakeRow.Seq, t.WakeRow.At
		t.Enqueued, t.Enqueues, t.Worker, t.Attempt, t.ClaimedAt = 0, 0, "", 0, 0
	}
	return t
}

// Queued returns the undispatched task that a message holds which is sent before there is a task row.
func (t Task) Queued(now Instant) Task {
	t.Enqueued = now
	t.Wake = t.NotPastExpiry(max(now, t.Due).Add(EnqueueTimeout))
	return t
}

// IsExpired reports whether the task may not start any more: it never started, and its StartBefore has come.
// A task whose worker was lost may have started.
func (t *Task) IsExpired(now Instant) bool { return t.MayExpire() && now >= t.StartBefore }

// MayExpire reports whether the task never started, as far as is known, and has a StartBefore.
func (t *Task) MayExpire() bool {
	return !t.StartBefore.IsZero() && t.FirstStarted.IsZero() && t.Lost == 0 && t.Failures == 0
}

// NotPastExpiry returns the earlier of an instant and that at which the task expires.
func (t *Task) NotPastExpiry(at Instant) Instant {
	if t.MayExpire() {
		return min(at, t.StartBefore)
	}
	return at
}

// HeldUntil returns from when on a worker may start the task: its due time. A task that was started once is
// due whatever the clock says, which may have been set back since.
func (t *Task) HeldUntil() Instant {
	if !t.FirstStarted.IsZero() && t.FirstStarted >= t.Due {
		return min(t.Due, t.Enqueued)
	}
	return t.Due
}

// LastDue returns the later of the due times that the task has and had first. There may be a wake-up row for
// each that holds the task, so that its ended row is needed after both.
func (t *Task) LastDue() Instant { return max(t.Due, t.FirstDue) }

// PayloadID returns the id of the task's payload row. The id of a task with a key does not depend on the
// payload, so the digest is part of its PayloadID: a payload row that a failed call left never becomes the
// payload of another task with the same key. The same holds for a payload that replaced another one. Its
// PayloadRev is part too, because the row of an earlier life with the same payload may expire before.
func (t *Task) PayloadID() ID {
	switch {
	case t.PayloadRev != 0:
		var rev [8]byte
		binary.BigEndian.PutUint64(rev[:], t.PayloadRev)
		return IDOf(t.ID[:], t.Digest[:], rev[:])
	case t.ID.IsDerived():
		return IDOf(t.ID[:], t.Digest[:])
	}
	return t.ID
}

// Attempt is a finished attempt.
type Attempt struct {
	Number  uint32  `row:"1"`
	Worker  string  `row:"2"`
	Start   Instant `row:"3"` // zero if it is not known to have started
	End     Instant `row:"4"`
	Outcome Outcome `row:"5"`
	Error   string  `row:"6"`
}

// Overrides are the settings that a single task may have; a zero field means the lambda's.
type Overrides struct {
	MaxAttempts uint32
	Timeout     time.Duration
	BackoffMin  time.Duration
	BackoffMax  time.Duration
}

// SetAsked gives the task what the call asked for that made another one, which is to replace it, but for its place, its
// due time and a payload of its row.
func (t *Task) SetAsked(want *Task) {
	t.Overrides, t.Tags, t.Traceparent, t.StartBefore = want.Overrides, want.Tags, want.Traceparent, want.StartBefore
	t.Blob, t.Request = want.Blob, want.Request
}

// PayloadStoredApart reports whether the payload is in a payload row.
func (t *Task) PayloadStoredApart() bool { return t.PayloadSize > 0 && t.Payload == nil }
