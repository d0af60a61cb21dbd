package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/task"
)

// Task is an attempt of a task, as its handler gets it.
type Task[T any] struct {
	ID         ID
	Lambda     string
	Priority   string
	Collection string
	Key        string
	Args       T
	Payload    []byte // Args, encoded

	// Attempt is the fencing number: it rises with every attempt of the task. Stores that the handler changes
	// can refuse a lower number.
	Attempt     int
	Failures    int // attempts that failed before
	MaxAttempts int
	WorkerLost  int // attempts whose worker was lost before
	Due         time.Time
	Created     time.Time
	Timeout     time.Duration // of this attempt; zero for none
	Traceparent string        // W3C trace context of the attempt, which the context of the handler has too; empty for none
	Tags        map[string]string
	Occurrence  *Occurrence  // nil: no cron has scheduled the task
	Member      *GroupMember // nil: it is no member of a group
	Group       *GroupEnd    // nil: it does not follow after a group
	Parent      *Parent      // the task before it; nil: it follows no other
	Chain       ID           // id of its chain; empty: it is in none

	given *given // shared by all forms of the attempt
}

// Then has more tasks follow, if the handler returns nil. The worker's identity needs the right to schedule
// them. Where the server refuses one, such as of an unknown lambda, the task ends as fatal_failure.
func (t *Task[T]) Then(steps ...Step) {
	if t.given == nil {
		t.given = new(given)
	}
	t.given.then = append(t.given.then, steps...)
}

// SetResult gives the task a value that is kept with it if the handler returns nil, for whoever reads the
// task or waits for it: bytes as they are, anything else as JSON. A second one replaces the first, and nil
// removes it. A value that has no JSON, or more than 32 KiB of it, fails the attempt, which is tried again.
func (t *Task[T]) SetResult(value any) {
	if t.given == nil {
		t.given = new(given)
	}
	t.given.result = value
}

// given is what a handler leaves besides its error.
type given struct {
	result any
	then   []Step
}

// Handler runs one attempt. nil means success. An error means that the task is tried again after a backoff,
// until its attempts are used up; Fatal, that it is not tried again; Snooze, that it is called again and
// nothing failed. The context ends at the task's timeout, on a cancel, when the worker stops and when it
// loses its lease; context.Cause says which. Its Err is context.DeadlineExceeded at the timeout and
// context.Canceled otherwise.
type Handler func(ctx context.Context, t *Task[[]byte]) error

// Middleware wraps a handler.
type Middleware func(Handler) Handler

// Handle makes a worker run the lambda's tasks with h. A task whose arguments cannot be decoded ends as
// fatal_failure.
func (l Lambda[T]) Handle(w *Worker, h func(ctx context.Context, t *Task[T]) error, opts ...HandleOption) {
	if h == nil {
		w.Register(l.name, nil, opts...)
		return
	}
	w.Register(l.name, func(ctx context.Context, raw *Task[[]byte]) error {
		t := typed[T](raw)
		if err := l.codec.Unmarshal(raw.Payload, &t.Args); err != nil {
			if _, isJSON := l.codec.(jsonCodec); !isJSON && w.client.cfg.Decode != nil {
				err = hidden(err)
			}
			return Fatal(fmt.Errorf("decode the arguments: %w", err))
		}
		return h(ctx, t)
	}, opts...)
}

func typed[T any](raw *Task[[]byte]) *Task[T] {
	return &Task[T]{
		ID: raw.ID, Lambda: raw.Lambda, Priority: raw.Priority, Collection: raw.Collection, Key: raw.Key, Payload: raw.Payload,
		Attempt: raw.Attempt, Failures: raw.Failures, MaxAttempts: raw.MaxAttempts, WorkerLost: raw.WorkerLost,
		Due: raw.Due, Created: raw.Created, Timeout: raw.Timeout, Traceparent: raw.Traceparent, Tags: raw.Tags,
		Occurrence: raw.Occurrence, Member: raw.Member, Group: raw.Group, Parent: raw.Parent, Chain: raw.Chain,
		given: raw.given,
	}
}

// Fatal marks an error that no retry can mend: the task ends as fatal_failure. Fatal(nil) is nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err}
}

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Snooze returns the error for a handler to return that wants to be called again after d. It does not count
// as a failure.
func Snooze(d time.Duration) error { return &snoozeError{max(d, 0)} }

type snoozeError struct{ d time.Duration }

func (e *snoozeError) Error() string { return fmt.Sprintf("snoozed for %v", e.d) }

// execute runs the handler of an attempt and returns how it ended.
func (w *Worker) execute(ctx context.Context, work *kinesinv1.Claimed) controller.Outcome {
	h := w.handlers[work.Lambda]
	if h == nil { // cannot happen: the server sends tasks of registered lambdas only
		return controller.Outcome{Kind: task.OutcomeReleased, Error: "this worker has no handler for the lambda"}
	}
	t, err := w.decodedTask(ctx, work)
	if err == nil {
		err = h(below(ctx, work.Traceparent), t)
	}
	if err != nil {
		return outcomeOf(err)
	}
	return w.succeeded(ctx, work, t.given)
}

// decodedTask returns the task of an attempt as its handler gets it, with its payload and its parent's result
// decoded.
func (w *Worker) decodedTask(ctx context.Context, work *kinesinv1.Claimed) (*Task[[]byte], error) {
	payload, err := w.client.decodeWork(ctx, work)
	if err != nil {
		return nil, err
	}
	t := taskOf(work)
	if t.Group != nil {
		t.Group.client = w.client
	}
	t.Args, t.Payload, t.given = payload, payload, new(given)
	return t, w.client.decodeParent(ctx, work, t.Parent)
}

// succeeded returns the outcome of an attempt whose handler returned nil.
func (w *Worker) succeeded(ctx context.Context, work *kinesinv1.Claimed, g *given) controller.Outcome {
	o := controller.Outcome{Kind: task.OutcomeSuccess}
	var err error
	if g.result != nil {
		o.Result, err = w.resultBytes(ctx, work, g.result)
	}
	if err == nil && len(g.then) > 0 {
		o.Add, err = w.followUps(ctx, g.then)
	}
	if err != nil {
		return outcomeOf(err)
	}
	return o
}

func (w *Worker) resultBytes(ctx context.Context, work *kinesinv1.Claimed, value any) ([]byte, error) {
	encoded, is := value.([]byte)
	if !is {
		var err error
		if encoded, err = json.Marshal(value); err != nil {
			return nil, fmt.Errorf("encode the result: %w", err)
		}
	}
	return w.client.encodeResult(context.WithoutCancel(ctx), work, encoded)
}

func (w *Worker) followUps(ctx context.Context, steps []Step) (*kinesinv1.Followups, error) {
	items, err := itemsOf(steps)
	if err == nil {
		items, err = w.client.addedFollowUps(context.WithoutCancel(ctx), items)
	}
	if err != nil {
		return nil, err
	}
	add := &kinesinv1.Followups{Then: wireItems(items)}
	if _, err := proto.Marshal(add); err != nil { // the server would refuse all that is sent with it
		return nil, fmt.Errorf("what follows the task: %w", err)
	}
	return add, nil
}

func taskOf(w *kinesinv1.Claimed) *Task[[]byte] {
	return &Task[[]byte]{
		ID: ID(w.Id), Lambda: w.Lambda, Priority: w.Priority, Collection: w.Collection, Key: w.Key,
		Args: w.Payload, Payload: w.Payload,
		Attempt: int(w.Attempt), Failures: int(w.Failures), MaxAttempts: int(w.MaxAttempts), WorkerLost: int(w.WorkerLost),
		Due: timeOf(w.Due), Created: timeOf(w.Created), Timeout: task.Micros(w.Timeout), Traceparent: w.Traceparent, Tags: w.Tags,
		Occurrence: occurrenceOf(w.Occurrence), Parent: optional[Parent](w.Parent), Chain: ID(w.Chain), Member: optional[GroupMember](w.Member), Group: groupEndOf(w.Group),
	}
}

func outcomeOf(err error) controller.Outcome {
	if err == nil {
		return controller.Outcome{Kind: task.OutcomeSuccess}
	}
	if e, is := errors.AsType[*sdkconfig.OutcomeError](err); is {
		return e.Outcome
	}
	if s, is := errors.AsType[*snoozeError](err); is {
		return controller.Outcome{Kind: task.OutcomeSnoozed, Delay: s.d, Error: err.Error()}
	}
	if _, is := errors.AsType[*fatalError](err); is {
		return controller.Outcome{Kind: task.OutcomeFatal, Error: err.Error()}
	}
	return controller.Outcome{Kind: task.OutcomeRetriable, Error: err.Error()}
}
