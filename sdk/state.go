package sdk

// State is where a task is in its life, as docs/concepts/task.md draws it. A newer server may return states
// that are not listed here.
type State string

// The states of a task.
const (
	StateAccepted         State = "accepted"          // acknowledged, and still in the inbound queue
	StateScheduled        State = "scheduled"         // waits for its due time, or for the end of a snooze
	StateEnqueued         State = "enqueued"          // in its lambda's queue
	StateClaimed          State = "claimed"           // a worker has it, and has not yet said that it runs
	StateProcessing       State = "processing"        // runs on a worker
	StateRetriableFailure State = "retriable_failure" // waits for its next attempt
	StateSuccess          State = "success"           // end: the handler returned nil
	StateFatalFailure     State = "fatal_failure"     // end: the handler returned Fatal
	StateDead             State = "dead"              // end: the attempts are used up
	StateCancelled        State = "cancelled"         // end: somebody cancelled it
	StateDropped          State = "dropped"           // end: it was dropped with its lambda
	StateExpired          State = "expired"           // end: it did not start in time
	StateAcquired         State = "acquired"          // of a deliver lambda: about to be put on its queue
	StateDelivered        State = "delivered"         // of a deliver lambda, end: on its queue
)

// String returns the text of the state.
func (s State) String() string { return string(s) }

// IsEnd reports whether the task has ended: nothing changes its state any more.
func (s State) IsEnd() bool {
	switch s {
	case StateSuccess, StateFatalFailure, StateDead, StateCancelled, StateDropped, StateExpired, StateDelivered:
		return true
	default:
		return false
	}
}

// Outcome is how an attempt ended.
type Outcome string

// The outcomes of an attempt.
const (
	OutcomeSuccess          Outcome = "success"           // the handler returned nil
	OutcomeRetriableFailure Outcome = "retriable_failure" // it returned an error, panicked or timed out
	OutcomeFatalFailure     Outcome = "fatal_failure"     // it returned Fatal
	OutcomeSnoozed          Outcome = "snoozed"           // it returned Snooze
	OutcomeReleased         Outcome = "released"          // the worker gave the task back when it stopped
	OutcomeCancelled        Outcome = "cancelled"         // the handler stopped on a cancel
	OutcomeWorkerLost       Outcome = "worker_lost"       // the worker's lease ran out, or its process died
	OutcomeUnstarted        Outcome = "unstarted"         // the worker never confirmed the claim
	OutcomeDropped          Outcome = "dropped"           // no attempt began: the task was dropped, by what the error says
)

// String returns the text of the outcome.
func (o Outcome) String() string { return string(o) }
