package task

import (
	"errors"
	"fmt"
	"time"
)

// Refusals of an event. Each is a decision for the caller.
var (
	// ErrEnded refuses any event on a task that has ended.
	ErrEnded = errors.New("task has ended")
	// ErrFenced refuses an event of an attempt that no longer owns the task.
	ErrFenced = errors.New("attempt does not own the task")
	// ErrStale refuses a message that was sent before the task's newest change.
	ErrStale = errors.New("message is stale")
	// ErrExpired refuses to start a task whose StartBefore has come. An Enqueue ends it.
	ErrExpired = errors.New("task has expired")
	// ErrNoEdge refuses an event that the diagram does not allow in this state.
	ErrNoEdge = errors.New("event is not possible in this state")
)

// Outcome is how an attempt ended.
type Outcome uint8

// The outcomes of an attempt.
const (
	OutcomeUnknown    Outcome = iota
	OutcomeSuccess            // handler returned nil
	OutcomeRetriable          // handler returned an error, panicked or ran out of time
	OutcomeFatal              // handler said that no retry can help
	OutcomeSnoozed            // handler asked to be called again later; no failure
	OutcomeReleased           // given back unfinished (drain, no handler); no failure
	OutcomeCancelled          // handler stopped on a cancel
	OutcomeWorkerLost         // the worker's lease ran out
	OutcomeUnstarted          // claimed, but the worker never confirmed it
	OutcomeDropped            // no attempt began: the task was dropped, and the error says by what

	outcomeEnd
)

var outcomeTexts = [outcomeEnd]string{
	"unknown", "success", "retriable_failure", "fatal_failure", "snoozed", "released", "cancelled", "worker_lost", "unstarted",
	"dropped",
}

// String returns the text of the outcome.
func (o Outcome) String() string {
	if o >= outcomeEnd {
		return fmt.Sprintf("outcome(%d)", uint8(o))
	}
	return outcomeTexts[o]
}

// EventKind is the kind of an event.
type EventKind uint8

// The events, and the fields of Event that each one reads.
const (
	_ EventKind = iota
	// Enqueue: the task is put on its lambda's queue, for the first time or again. It ends there if it has
	// expired.
	Enqueue
	// Claim: Worker takes the message with Seq; Lease is the length of the worker's lease.
	Claim
	// Start: Worker confirms that Attempt runs since Started.
	Start
	// Finish: Worker ends Attempt with Outcome; Started, Delay (snooze), Error, Result (success), Jitter.
	Finish
	// WorkerLost: the lease of Worker ran out, or its process has ended. Blame if the lease names this task
	// as the one in quarantine.
	WorkerLost
	// Unconfirmed: Worker lives but never confirmed Attempt within ClaimTimeout.
	Unconfirmed
	// Cancel: a user wants the task not to start, or to stop.
	Cancel
	// Drop: the task is dropped before it starts: with its lambda, or by what Error says, which its history
	// then tells.
	Drop
	// Acquire: the server named Worker is about to put the task on the queue of its deliver lambda. If it was
	// acquired before, that server is gone or too slow.
	Acquire
	// HandOver: the task is on that queue.
	HandOver
	// Reschedule: a user wants the task, which no worker has, to start at Due.
	Reschedule
	// Update: a user wants the task, which no worker has, to be other than it was. The caller changes it.
	Update
	// Redrive: a user wants a task that has ended to start anew, at Due; Force: also one that succeeded.
	Redrive
	// Match is a direct hand-off: Worker, which has a free slot, gets the task at once. It is Enqueue and
	// Claim in one, without a message. Lease is the length of the worker's lease.
	Match
	// Expire: a user wants the task to end as expired, before it starts.
	Expire
)

var eventTexts = [...]string{
	"unknown", "enqueue", "claim", "start", "finish", "worker_lost", "unconfirmed", "cancel", "drop",
	"acquire", "hand_over", "reschedule", "update", "redrive", "match", "expire",
}

// String returns the text of the event for logs and metrics.
func (k EventKind) String() string {
	if int(k) >= len(eventTexts) {
		return fmt.Sprintf("event(%d)", uint8(k))
	}
	return eventTexts[k]
}

// Event is something that happened to a task.
type Event struct {
	Kind    EventKind
	Seq     uint64
	Worker  string
	Attempt uint32
	Lease   time.Duration
	Outcome Outcome
	Started Instant
	Error   string
	Result  []byte
	Delay   time.Duration
	Jitter  uint64
	Blame   bool
	By      string // the server that sends the message, if the event has that effect
	Due     Instant
	Force   bool
}

// Effect is what the caller has to do once the changed task is stored.
type Effect uint8

// The effects of an event.
const (
	None       Effect = iota
	Send              // put a message for the task, or the task itself, on its queue
	TellWorker        // tell the worker that a cancel was requested
)

// Apply is the state machine. It returns the task after the event, and what the caller has to do once that is
// stored on the condition that the stored Seq is t.Seq. It refuses an event with ErrEnded, ErrFenced,
// ErrStale, ErrExpired or ErrNoEdge.
func (t Task) Apply(e Event, now Instant, p Policy) (Task, Effect, error) {
	if t.State.IsEnd() && e.Kind != Redrive {
		return t, None, fmt.Errorf("%w: %s", ErrEnded, t.State)
	}
	next, effect, err := t.apply(e, now, p)
	if err == nil && !t.State.CanBecome(next.State) {
		err = fmt.Errorf("%w: %s to %s", ErrNoEdge, t.State, next.State)
	}
	if err != nil {
		return t, None, err
	}
	if effect == Send && next.State == Enqueued {
		next.Worker = e.By
	}
	return next, effect, nil
}

// apply may return a half changed task with an error; Apply discards it.
func (t Task) apply(e Event, now Instant, p Policy) (Task, Effect, error) {
	t.Seq++
	switch e.Kind {
	case Enqueue:
		return t.enqueue(now, p)
	case Acquire:
		return t.acquire(e, now)
	case HandOver:
		return t.end(Delivered, now, p), None, nil
	case Claim:
		return t.claim(e, now)
	case Match:
		return t.match(e, now)
	case Start:
		return t.start(e, now)
	case Finish:
		return t.finish(e, now, p)
	case WorkerLost:
		return t.workerLost(e, now, p)
	case Unconfirmed:
		return t.unconfirmed(e, now, p)
	case Cancel:
		return t.cancel(now, p)
	case Drop:
		return t.drop(e, now, p)
	case Reschedule:
		return t.reschedule(e)
	case Update:
		return t.update(now)
	case Redrive:
		return t.redrive(e)
	case Expire:
		return t.expire(now, p)
	}
	return t, None, fmt.Errorf("%w: event %d", ErrNoEdge, e.Kind)
}

func (t Task) enqueue(now Instant, p Policy) (Task, Effect, error) {
	if t.State.IsRunning() || t.State == Acquired {
		return t, None, fmt.Errorf("%w: enqueue while %s", ErrNoEdge, t.State)
	}
	return t.enqueueOrExpire(now, p)
}

// enqueueOrExpire puts a task on the queue, unless it may not start any more.
func (t Task) enqueueOrExpire(now Instant, p Policy) (Task, Effect, error) {
	if t.IsExpired(now) && t.State != RetriableFailure {
		return t.end(Expired, now, p), None, nil
	}
	return t.toQueue(now), Send, nil
}

// toQueue is the only way into Enqueued. A message may be sent before the due time, so the timeout counts
// from the later of the two. A task that may expire wakes then, whether a worker takes its message or not.
func (t Task) toQueue(now Instant) Task {
	t.State = Enqueued
	t.Enqueued = now
	t.Wake = t.NotPastExpiry(max(now, t.HeldUntil()).Add(EnqueueTimeoutAfter(t.Enqueues)))
	t.Enqueues++
	t.Worker = ""
	return t
}

// acquire is allowed for any server at any time: one that was presumed gone may still send, so that a task
// may be sent twice but is never lost. The wake-up stays, as the key of a wake-up row does: the owner of the
// partition finds the row at its head until it is deleted.
func (t Task) acquire(e Event, now Instant) (Task, Effect, error) {
	if e.Worker == "" {
		return t, None, fmt.Errorf("%w: acquire without a server", ErrNoEdge)
	}
	t.State = Acquired
	t.Worker = e.Worker
	t.ClaimedAt = now
	t.Enqueues++
	return t, Send, nil
}

func (t Task) claim(e Event, now Instant) (Task, Effect, error) {
	if t.State != Enqueued || e.Seq != t.Seq-1 {
		return t, None, fmt.Errorf("%w: task is %s", ErrStale, t.State)
	}
	if t.IsExpired(now) {
		return t, None, t.tooLate()
	}
	return t.claimed(e, now), None, nil
}

// match refuses suspects, which only the HSC keeps apart from others.
func (t Task) match(e Event, now Instant) (Task, Effect, error) {
	if t.State != Scheduled && t.State != RetriableFailure || t.Suspect {
		return t, None, fmt.Errorf("%w: match while %s", ErrNoEdge, t.State)
	}
	if t.IsExpired(now) {
		return t, None, t.tooLate()
	}
	return t.toQueue(now).claimed(e, now), None, nil
}

func (t *Task) tooLate() error {
	return fmt.Errorf("%w: it had to start before %s", ErrExpired, t.StartBefore.Time().UTC().Format(time.RFC3339Nano))
}

// claimed is the only way into a new attempt. It keeps the wake-up of the enqueued task, which its scheduler
// knows, unless that is too late for the end of the worker's lease.
func (t Task) claimed(e Event, now Instant) Task {
	t.State = Claimed
	t.Attempt++
	t.Enqueues = 0
	t.Worker = e.Worker
	t.ClaimedAt = now
	t.Started = 0
	t.Wake = min(t.Wake, max(now, t.HeldUntil()).Add(e.Lease+ClockBound))
	return t
}

// owns checks that an event comes from the attempt that owns the task.
func (t *Task) owns(e Event) error {
	if !t.State.IsRunning() || t.Attempt != e.Attempt || t.Worker != e.Worker {
		return fmt.Errorf("%w: attempt %d of %q, task is %s at attempt %d", ErrFenced, e.Attempt, e.Worker, t.State, t.Attempt)
	}
	return nil
}

func (t Task) start(e Event, now Instant) (Task, Effect, error) {
	if err := t.owns(e); err != nil {
		return t, None, err
	}
	if t.State != Claimed {
		return t, None, fmt.Errorf("%w: start while %s", ErrNoEdge, t.State)
	}
	t.State = Processing
	t.started(e, now)
	return t, None, nil
}

// started notes when the handler of an event's attempt began. A worker need not know it; but a task that may
// expire has to know that it began, so that a retry is not refused.
func (t *Task) started(e Event, now Instant) {
	at := e.Started
	if at.IsZero() && t.Started.IsZero() && !t.StartBefore.IsZero() && e.ran() {
		at = now
	}
	if at.IsZero() {
		return
	}
	t.Started = at
	if t.FirstStarted.IsZero() {
		t.FirstStarted = at
	}
}

// ran reports whether an event says that the handler of an attempt began.
func (e *Event) ran() bool {
	return e.Kind == Start || e.Outcome == OutcomeRetriable || e.Outcome == OutcomeSnoozed
}

func (t Task) finish(e Event, now Instant, p Policy) (Task, Effect, error) {
	if err := t.owns(e); err != nil {
		return t, None, err
	}
	t.started(e, now)
	t.remember(e.Outcome, e.Error, now)
	if e.Outcome != OutcomeReleased {
		t.Suspect, t.Blamed = false, 0 // the attempt ended and its process lived
	}
	switch e.Outcome {
	case OutcomeSuccess:
		t.Result = e.Result
		return t.end(Success, now, p), None, nil
	case OutcomeFatal:
		return t.end(FatalFailure, now, p), None, nil
	case OutcomeCancelled:
		return t.end(Cancelled, now, p), None, nil
	case OutcomeRetriable:
		t.Failures++
		if t.Failures >= p.MaxAttempts && !t.CancelRequested {
			return t.end(Dead, now, p), None, nil
		}
		return t.wait(RetriableFailure, p.Backoff(t.Failures, e.Jitter), now, p)
	case OutcomeSnoozed:
		return t.wait(Scheduled, e.Delay, now, p)
	case OutcomeReleased:
		return t.again(now, p)
	case OutcomeUnknown, OutcomeWorkerLost, OutcomeUnstarted, OutcomeDropped:
	}
	return t, None, fmt.Errorf("%w: a worker cannot report %s", ErrNoEdge, e.Outcome)
}

// wait makes a task wait for its next attempt, unless a cancel was requested.
func (t Task) wait(s State, d time.Duration, now Instant, p Policy) (Task, Effect, error) {
	if t.CancelRequested {
		return t.end(Cancelled, now, p), None, nil
	}
	t.State = s
	t.Wake = now.Add(max(d, 0))
	t.Worker = ""
	return t, None, nil
}

// again puts a task back on the queue at once, unless a cancel was requested or it may not start any more.
func (t Task) again(now Instant, p Policy) (Task, Effect, error) {
	if t.CancelRequested {
		return t.end(Cancelled, now, p), None, nil
	}
	return t.enqueueOrExpire(now, p)
}

func (t Task) workerLost(e Event, now Instant, p Policy) (Task, Effect, error) {
	if err := t.owns(e); err != nil {
		return t, None, err
	}
	t.Lost++
	inRow := t.lostInRow(p) + 1
	if t.Blamed > 0 && e.Blame && inRow >= p.poisonBound() { // it ran alone: it is the cause
		t.remember(OutcomeWorkerLost, fmt.Sprintf(
			"the worker was lost: %d attempts in a row were lost with their workers, the last one alone in its process", inRow), now)
		return t.end(Dead, now, p), None, nil
	}
	t.remember(OutcomeWorkerLost, "the worker was lost", now)
	if t.Suspect = true; inRow >= blamedFrom(p) { // before, it runs again at once, beside others
		t.Blamed++ // from now on it begins in quarantine, each time in a longer one
	}
	return t.again(now, p)
}

// blamedFrom is how many losses in a row make a task begin in quarantine: two, or one where the second is the
// last.
func blamedFrom(p Policy) uint32 { return min(2, p.poisonBound()-1) }

// lostInRow returns how many attempts were lost since one ended whose process lived.
func (t *Task) lostInRow(p Policy) uint32 {
	switch {
	case !t.Suspect:
		return 0
	case t.Blamed == 0:
		return 1
	}
	return t.Blamed + blamedFrom(p) - 1
}

func (t Task) unconfirmed(e Event, now Instant, p Policy) (Task, Effect, error) {
	if err := t.owns(e); err != nil {
		return t, None, err
	}
	if t.State != Claimed {
		return t, None, fmt.Errorf("%w: unconfirmed while %s", ErrNoEdge, t.State)
	}
	t.remember(OutcomeUnstarted, "the worker never confirmed the claim", now)
	return t.again(now, p)
}

func (t Task) cancel(now Instant, p Policy) (Task, Effect, error) {
	if t.State == Acquired {
		return t, None, fmt.Errorf("%w: it may be on its queue already", ErrNoEdge)
	}
	if !t.State.IsRunning() {
		return t.end(Cancelled, now, p), None, nil
	}
	t.CancelRequested = true
	return t, TellWorker, nil
}

func (t Task) drop(e Event, now Instant, p Policy) (Task, Effect, error) {
	if t.State.IsRunning() {
		return t, None, fmt.Errorf("%w: drop while %s", ErrNoEdge, t.State)
	}
	if e.Error != "" {
		t.remember(OutcomeDropped, e.Error, now)
		last := &t.History[len(t.History)-1]
		last.Worker, last.Start = "", 0 // of the attempt before
	}
	return t.end(Dropped, now, p), None, nil
}

func (t Task) end(s State, now Instant, p Policy) Task {
	if t.State == Enqueued {
		t.Worker = "" // the server that enqueued it does not matter any more
	}
	t.State = s
	t.Ended = now
	t.Wake = 0
	keep := max(p.Retention, EndedMin)
	switch {
	case s == Dead:
		keep = max(keep, DeadRetention)
	case t.Chain != nil:
		keep = max(keep, ChainRetention)
		if t.Key != "" && s == Success {
			keep = max(keep, p.KeyRetention)
		}
	case t.Key != "" && (s == Success || s == Delivered):
		keep = max(keep, p.KeyRetention) // the row holds the key
	}
	t.ExpireAt = max(now, t.LastDue()).Add(keep)
	if t.Member != nil {
		t.ExpireAt = max(t.ExpireAt, t.Member.Until)
	}
	return t
}

// remember appends the attempt that has just ended, and drops the oldest beyond HistoryMax.
func (t *Task) remember(o Outcome, text string, now Instant) {
	keep := t.History
	if len(keep) >= HistoryMax {
		keep = keep[len(keep)-HistoryMax+1:]
	}
	history := make([]Attempt, len(keep), len(keep)+1)
	copy(history, keep)
	history = append(history, Attempt{
		Number: t.Attempt, Worker: t.Worker, Start: t.Started, End: now, Outcome: o, Error: ErrorText(text),
	})
	t.History = history
}
