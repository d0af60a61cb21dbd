package task

import (
	"fmt"
	"slices"
	"strings"
)

// State is where a task is in its life. The texts are the form of the wire and the command line.
type State uint8

// The states of a task. Every state that is not an end carries a wake-up time.
const (
	// Unknown is the zero value. It is the state of a bare wake-up row, which holds no task.
	Unknown State = iota
	// Accepted is reported, and never stored, of a task in the inbound buffer.
	Accepted
	// Scheduled waits for its due time, or for the end of a snooze.
	Scheduled
	// Enqueued is in its lambda's queue.
	Enqueued
	// Claimed belongs to an attempt on a worker, which has not yet said that it runs.
	Claimed
	// Processing runs on a worker.
	Processing
	// RetriableFailure waits out its backoff.
	RetriableFailure
	// Success is an end: the handler returned without an error.
	Success
	// FatalFailure is an end: the handler said that no retry can help.
	FatalFailure
	// Dead is an end: the attempts are used up, or the task killed its worker too often.
	Dead
	// Cancelled is an end: a user cancelled the task.
	Cancelled
	// Dropped is an end: the task was dropped with its lambda.
	Dropped
	_ // reserved: stored numbers never get another meaning
	// Acquired belongs to a server that is about to put the task on the queue of its deliver lambda.
	Acquired
	// Delivered is an end: the task is on the queue of its deliver lambda. It is stored for tasks with a key
	// only; for others it is what is reported when they have no row.
	Delivered
	// Expired is an end: the task did not start before its StartBefore.
	Expired

	stateEnd
)

var stateTexts = [stateEnd]string{
	"unknown", "accepted", "scheduled", "enqueued", "claimed", "processing", "retriable_failure",
	"success", "fatal_failure", "dead", "cancelled", "dropped", "", "acquired", "delivered", "expired",
}

// States returns every state that a stored task can have, in the order of their numbers.
func States() []State {
	var all []State
	for s := range stateEnd {
		if s.IsStored() {
			all = append(all, s)
		}
	}
	return all
}

// String returns the text of the state.
func (s State) String() string {
	if s >= stateEnd || stateTexts[s] == "" {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateTexts[s]
}

// ParseState reads the text of a state that can be stored.
func ParseState(text string) (State, error) {
	for _, s := range States() {
		if s.String() == text {
			return s, nil
		}
	}
	texts := make([]string, 0, len(States()))
	for _, s := range States() {
		texts = append(texts, s.String())
	}
	return Unknown, fmt.Errorf("unknown state %q: want one of %s", text, strings.Join(texts, ", "))
}

// IsEnd reports whether the state is an end. Only a redrive leaves it.
func (s State) IsEnd() bool { return s >= Success && s <= Dropped || s == Delivered || s == Expired }

// IsStored reports whether a row can be in the state.
func (s State) IsStored() bool { return s >= Scheduled && s < stateEnd && stateTexts[s] != "" }

// IsRunning reports whether an attempt owns the task.
func (s State) IsRunning() bool { return s == Claimed || s == Processing }

// IsWaiting reports whether a task waits in its row until it wakes.
func (s State) IsWaiting() bool { return s == Scheduled || s == RetriableFailure }

// edges is the table of docs/internals/states.md: the states to which one event can lead from each state. An
// edge from a state to itself changes only the wake-up or a mark.
var edges = [stateEnd][]State{
	Scheduled: {Scheduled, Enqueued, Claimed, Acquired, Cancelled, Dropped, Expired},
	Enqueued:  {Enqueued, Scheduled, Claimed, Cancelled, Dropped, Expired},
	Claimed: {
		Claimed, Processing, Enqueued, Scheduled, RetriableFailure,
		Success, FatalFailure, Dead, Cancelled, Expired,
	},
	Processing: {
		Processing, Enqueued, Scheduled, RetriableFailure,
		Success, FatalFailure, Dead, Cancelled,
	},
	RetriableFailure: {RetriableFailure, Scheduled, Enqueued, Claimed, Cancelled, Dropped, Expired},
	Acquired:         {Acquired, Delivered, Dropped},
	Success:          {Scheduled},
	FatalFailure:     {Scheduled},
	Dead:             {Scheduled},
	Cancelled:        {Scheduled},
	Dropped:          {Scheduled},
	Delivered:        {Scheduled},
	Expired:          {Scheduled},
}

// CanBecome reports whether one event can lead from s to next.
func (s State) CanBecome(next State) bool {
	return s < stateEnd && slices.Contains(edges[s], next)
}
