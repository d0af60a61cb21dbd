// Package task is the domain: what a task and a lambda are, how a task moves
// from state to state, and when it is tried again. Everything here is a pure
// function of its arguments: no I/O, no clock, no randomness of its own.
// It imports only the standard library and nothing of this module.
package task

import "time"

// HistoryMax is how many of its latest attempts a task remembers.
const HistoryMax = 10

// ErrorBytesMax bounds the error text kept for an attempt.
const ErrorBytesMax = 1024

// Task is one unit of execution of a lambda, as it is stored. A Task is a
// value: Apply returns a changed copy and shares Payload with the original,
// which nobody may write to.
type Task struct {
	ID        ID
	Partition Partition
	State     State
	Seq       uint64 // rises by one at every stored change; the compare-and-set value

	Due     Instant // when it should first start; whole milliseconds
	Created Instant
	Wake    Instant // when the scheduler looks at it again; zero in an end
	// WakeRow names the wake-up row of a task row. It stays when the task ends, so that a row that was left
	// behind is known for what it is. In a wake-up row itself it is what the task row will have.
	WakeRow WakeRow

	Collection string
	Key        string // idempotency key, empty for none
	// Digest identifies lambda, priority, collection and payload of a keyed task, so that the
	// same key with another payload is noticed. Zero without a key.
	Digest [16]byte

	Payload     []byte // inline payload; nil when it is stored apart
	PayloadSize uint32 // size in bytes, wherever it is stored

	Overrides Overrides // per-task settings; zero means the lambda's
	// Traceparent is the W3C trace context of who scheduled the task (see CheckTraceparent), empty for none.
	Traceparent string

	Attempt  uint32 // the newest attempt's number: the fencing value, rises at every claim
	Failures uint32 // attempts that the user's code failed; these count against MaxAttempts
	Lost     uint32 // attempts whose worker was lost; never count against MaxAttempts
	Blamed   uint32 // losses while it was a suspect, none of them in quarantine, where it runs from the first on
	Enqueues uint32 // sends since the last claim; lengthens the enqueue timeout. Of an acquired one: how often it was acquired
	Suspect  bool   // its worker was lost, and no attempt has ended in a living process since

	CancelRequested bool // a cancel came while it ran

	Worker       string // owner of the newest attempt; process that acquired or enqueued it
	Enqueued     Instant
	ClaimedAt    Instant // when it was claimed or acquired
	Started      Instant // start of the newest attempt, zero while none is known
	FirstStarted Instant // start of the first attempt
	Ended        Instant // when it reached its end
	ExpireAt     Instant // when an ended row may be deleted

	History []Attempt // oldest first, at most HistoryMax
}

// WakeRow is the place of a wake-up row in its partition, and the seq at which it was put there. A row with a
// lower seq in the same place is an older one.
type WakeRow struct {
	At  Instant
	Seq uint64
}

// IsBare reports whether a wake-up row holds nothing but the id of its task, which then has a task row.
func (t *Task) IsBare() bool { return t.State == Unknown }

// Undispatched is the task that a wake-up row holds as it was before anything happened to it: the row of one
// that was stored as enqueued or claimed at once is there though its task row may not have followed.
func (t Task) Undispatched() Task {
	if t.State != Scheduled && t.State != Acquired {
		t.State, t.Seq, t.Wake = Scheduled, t.WakeRow.Seq, t.WakeRow.At
		t.Enqueued, t.Enqueues, t.Worker, t.Attempt, t.ClaimedAt = 0, 0, "", 0, 0
	}
	return t
}

// Queued is an undispatched task as its message has it when that is sent before there is a task row.
func (t Task) Queued(now Instant) Task {
	t.Enqueued = now
	t.Wake = max(now, t.Due).Add(EnqueueTimeout)
	return t
}

// HeldUntil is from when on a worker may start the task: its due time. The due time of a task that was
// started once has come, whatever the clock shows now: it may have been set back since.
func (t *Task) HeldUntil() Instant {
	if !t.FirstStarted.IsZero() && t.FirstStarted >= t.Due {
		return min(t.Due, t.Enqueued)
	}
	return t.Due
}

// PayloadID names the payload row of a task whose payload is stored apart. A keyed task's id is the same
// whatever the key is used for, so its payload goes by the digest too: what a call that failed
// between its two writes left behind can never become the payload of another one.
func (t *Task) PayloadID() ID {
	if !t.ID.IsDerived() {
		return t.ID
	}
	return IDOf(t.ID[:], t.Digest[:])
}

// Attempt is one finished try.
type Attempt struct {
	Number  uint32
	Worker  string
	Start   Instant // zero when it is not known to have started
	End     Instant
	Outcome Outcome
	Error   string
}

// Overrides are the settings a single task may have for itself; a zero field means the lambda's.
type Overrides struct {
	MaxAttempts uint32
	Timeout     time.Duration
	BackoffMin  time.Duration
	BackoffMax  time.Duration
}

// PayloadStoredApart reports whether the payload is in a row of its own.
func (t *Task) PayloadStoredApart() bool { return t.PayloadSize > 0 && t.Payload == nil }
