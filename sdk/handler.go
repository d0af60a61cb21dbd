package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

// Task is one attempt of a task, as its handler gets it.
type Task[T any] struct {
	ID         ID
	Lambda     string
	Priority   string
	Collection string
	Key        string
	Args       T
	Payload    []byte // Args, encoded

	// Attempt is the fencing number: it rises with every attempt of the task. Pass it on to what
	// the handler changes, and have a lower number refused there.
	Attempt     int
	Failures    int // attempts that failed before
	MaxAttempts int
	WorkerLost  int // attempts whose worker was lost before
	Due         time.Time
	Created     time.Time
	Traceparent string // W3C trace context of who scheduled the task, empty for none
}

// Handler runs one attempt. nil is success, an error is tried again after a backoff until the attempts are
// used up, Fatal is not tried again, Snooze is tried again at no charge. The context ends at the task's
// timeout, on a cancel, when the worker stops and when it loses its lease; context.Cause tells which.
type Handler func(ctx context.Context, t *Task[[]byte]) error

// Middleware wraps a handler.
type Middleware func(Handler) Handler

// Handle has a worker run the lambda's tasks. Arguments that cannot be decoded end a task without a retry.
func (l Lambda[T]) Handle(w *Worker, h func(ctx context.Context, t *Task[T]) error, opts ...HandleOption) {
	if h == nil {
		w.Register(l.name, nil, opts...)
		return
	}
	w.Register(l.name, func(ctx context.Context, raw *Task[[]byte]) error {
		t := typed[T](raw)
		if err := l.codec.Unmarshal(raw.Payload, &t.Args); err != nil {
			return Fatal(fmt.Errorf("decode the arguments: %w", err))
		}
		return h(ctx, t)
	}, opts...)
}

func typed[T any](raw *Task[[]byte]) *Task[T] {
	return &Task[T]{
		ID: raw.ID, Lambda: raw.Lambda, Priority: raw.Priority, Collection: raw.Collection, Key: raw.Key, Payload: raw.Payload,
		Attempt: raw.Attempt, Failures: raw.Failures, MaxAttempts: raw.MaxAttempts, WorkerLost: raw.WorkerLost,
		Due: raw.Due, Created: raw.Created, Traceparent: raw.Traceparent,
	}
}

// Fatal marks an error that no retry will help: the task ends as fatal_failure. nil stays nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Snooze is the error of a handler that wants to be called again after d. It is not a failure and charges no
// attempt.
func Snooze(d time.Duration) error { return &snoozeError{max(d, 0)} }

type snoozeError struct{ d time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.d) }

// execute runs the handler of one attempt.
func (w *Worker) execute(ctx context.Context, work *controller.Work) controller.Outcome {
	h := w.handlers[work.Lambda]
	if h == nil { // the server sends what was registered only
		return controller.Outcome{Kind: task.OutcomeReleased, Error: "this worker has no handler for the lambda"}
	}
	return outcomeOf(h(ctx, &Task[[]byte]{
		ID: ID(work.ID), Lambda: work.Lambda, Priority: work.Priority, Collection: work.Collection, Key: work.Key,
		Args: work.Payload, Payload: work.Payload,
		Attempt: work.Attempt, Failures: work.Failures, MaxAttempts: work.MaxAttempts, WorkerLost: work.WorkerLost,
		Due: work.Due, Created: work.Created, Traceparent: work.Traceparent,
	}))
}

func outcomeOf(err error) controller.Outcome {
	if err == nil {
		return controller.Outcome{Kind: task.OutcomeSuccess}
	}
	if s, is := errors.AsType[*snoozeError](err); is {
		return controller.Outcome{Kind: task.OutcomeSnoozed, Delay: s.d, Error: err.Error()}
	}
	if _, is := errors.AsType[*fatalError](err); is {
		return controller.Outcome{Kind: task.OutcomeFatal, Error: err.Error()}
	}
	return controller.Outcome{Kind: task.OutcomeRetriable, Error: err.Error()}
}
