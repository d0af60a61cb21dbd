package task

import (
	"fmt"
	"slices"
)

// State is where a task stands. The texts are the wire and command-line form.
type State uint8

// The states of a task. Every state that is not an end carries a wake-up time.
const (
	// Unknown is the zero value. No task is stored in it; a bare wake-up row, which holds no task, has it.
	Unknown State = iota
	// Accepted is only ever reported, never stored: the task was acknowledged
	// and is still in the inbound buffer.
	Accepted
	// Scheduled waits for its due time, or for the end of a snooze.
	Scheduled
	// Enqueued is in its lambda's queue.
	Enqueued
	// Claimed belongs to one attempt on one worker, which has not yet said that it started.
	Claimed
	// Processing runs on a worker.
	Processing
	// RetriableFailure waits out its backoff.
	RetriableFailure
	// Success is an end: the handler returned without an error.
	Success
	// FatalFailure is an end: the handler said that no retry will help.
	FatalFailure
	// Dead is an end: the attempts are used up, or the task killed its worker too often.
	Dead
	// Cancelled is an end: a user asked for it.
	Cancelled
	// Dropped is an end: a gate dropped the task.
	Dropped
	_ // reserved: stored numbers never get another meaning
	// Acquired belongs to one process of ours, which puts it on the queue of a deliver lambda.
	Acquired
	// Delivered is an end: the task is on the queue of a deliver lambda. It is stored only for tasks with a
	// key; of the others no row is left, and it is what is reported when there is none.
	Delivered

	stateEnd
)

var stateTexts = [stateEnd]string{
	"unknown", "accepted", "scheduled", "enqueued", "claimed", "processing", "retriable_failure",
	"success", "fatal_failure", "dead", "cancelled", "dropped", "", "acquired", "delivered",
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

// String returns the wire form.
func (s State) String() string {
	if s >= stateEnd || stateTexts[s] == "" {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return stateTexts[s]
}

// ParseState reads the wire form of a state that can be stored.
func ParseState(text string) (State, error) {
	for _, s := range States() {
		if s.String() == text {
			return s, nil
		}
	}
	return Unknown, fmt.Errorf("unknown state %q: want one of %v", text, States())
}

// IsEnd reports whether the state is final: nothing leaves it.
func (s State) IsEnd() bool { return s >= Success && s <= Dropped || s == Delivered }

// IsStored reports whether a row can be in the state.
func (s State) IsStored() bool { return s >= Scheduled && s < stateEnd && stateTexts[s] != "" }

// IsRunning reports whether an attempt owns the task.
func (s State) IsRunning() bool { return s == Claimed || s == Processing }

// edges is the diagram of docs/state-machine.md: from each state, where one
// event can lead. A state that maps to itself moves only its wake-up or a mark.
var edges = [stateEnd][]State{
	Scheduled: {Enqueued, Claimed, Acquired, Cancelled, Dropped},
	Enqueued:  {Enqueued, Claimed, Cancelled, Dropped},
	Claimed: {
		Claimed, Processing, Enqueued, Scheduled, RetriableFailure,
		Success, FatalFailure, Dead, Cancelled,
	},
	Processing: {
		Processing, Enqueued, Scheduled, RetriableFailure,
		Success, FatalFailure, Dead, Cancelled,
	},
	RetriableFailure: {Enqueued, Claimed, Cancelled, Dropped},
	Acquired:         {Acquired, Delivered, Dropped},
}

// CanBecome reports whether the diagram has an edge from s to next.
func (s State) CanBecome(next State) bool {
	return s < stateEnd && slices.Contains(edges[s], next)
}
