// Package queue is the seam to the lambda queues: one queue for each <lambda, priority>, through which
// enqueued tasks reach the workers. The store, not the queue, is the truth: the scheduler sends a lost
// message again, and a claim refuses one that comes twice.
//
// Roles use Queue; implementers write a Driver.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Sentinels of the seam.
var (
	// ErrFull says that a queue is at its bound. The task stays in the store, where it costs nothing.
	ErrFull = errors.New("queue is full")
	// ErrClosed refuses calls after Close.
	ErrClosed = errors.New("queue is closed")
	// ErrMissing says that the queue does not exist. Somebody must create it.
	ErrMissing = errors.New("no such queue")
	// ErrUnreachable says that the queue service did not answer, failed, or is too busy; a later try may
	// succeed.
	ErrUnreachable = errors.New("queue service does not answer")
)

// Limits of one call.
const (
	SendMax    = 4096
	ReceiveMax = 4096
	AheadMax   = time.Second
)

// Queue validates and bounds the calls of roles to a Driver.
type Queue struct {
	d Driver
	c Config
}

// Config is what a Queue has besides its driver. Each field may be its zero value.
type Config struct {
	// Answered is told how each message was sent, and how each receive ended.
	Answered func(err error)
	// Sending is told that a send begins; what it returns is told of its first error.
	Sending func(ctx context.Context) (sent func(err error))
	// Seal is what a Sealer seals with.
	Seal task.Seal
	// Weights are those of a lambda's priorities, for a Weigher.
	Weights func(lambda uint32) []uint16
}

// New wraps a driver.
func New(d Driver, c Config) *Queue {
	if s, seals := d.(Sealer); seals && c.Seal != (task.Seal{}) {
		s.UseSealer(c.Seal)
	}
	if w, weighs := d.(Weigher); weighs && c.Weights != nil {
		w.UseWeights(c.Weights)
	}
	return &Queue{d, c}
}

func (q *Queue) answered(errs ...error) {
	if q.c.Answered == nil {
		return
	}
	for _, err := range errs {
		q.c.Answered(err)
	}
}

// Send puts messages on their queues and returns a result for each.
func (q *Queue) Send(ctx context.Context, messages []Message) []error {
	results := make([]error, 0, len(messages))
	for len(messages) > 0 {
		n := min(len(messages), SendMax)
		part := q.send(ctx, messages[:n])
		if len(part) != n {
			panic(fmt.Sprintf("queue driver answered %d of %d sends", len(part), n))
		}
		q.answered(part...)
		results = append(results, part...)
		messages = messages[n:]
	}
	return results
}

// send makes one call of the driver, and tells Sending of it.
func (q *Queue) send(ctx context.Context, messages []Message) []error {
	if q.c.Sending == nil {
		return q.d.Send(ctx, messages)
	}
	sent := q.c.Sending(ctx)
	results := q.d.Send(ctx, messages)
	sent(cmp.Or(results...))
	return results
}

// Receive waits for messages; see Driver.Receive. limit must be positive and is capped at ReceiveMax; ahead
// is capped at AheadMax. Without names it waits until ctx ends.
func (q *Queue) Receive(ctx context.Context, names []Name, limit int, ahead time.Duration) ([]Message, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receive %d messages: want 1 to %d", limit, ReceiveMax)
	}
	messages, err := q.d.Receive(ctx, names, min(limit, ReceiveMax), min(max(ahead, 0), AheadMax))
	q.answered(err)
	return messages, err
}

// Delete removes received messages for good.
func (q *Queue) Delete(ctx context.Context, messages []Message) error {
	return q.d.Delete(ctx, messages)
}

// Release makes received messages visible again after delay.
func (q *Queue) Release(ctx context.Context, messages []Message, delay time.Duration) error {
	return q.d.Release(ctx, messages, delay)
}

// Depth returns the depth of a queue as far as it is known.
func (q *Queue) Depth(ctx context.Context, name Name) (Depth, error) { return q.d.Depth(ctx, name) }

// Room returns a channel that is closed when a full queue has room again; nil when the driver cannot tell.
func (q *Queue) Room(name Name) <-chan struct{} { return q.d.Room(name) }

// Drop removes the messages of a deleted lambda if the driver can. Otherwise receivers discard them.
func (q *Queue) Drop(ctx context.Context, lambda uint32) error {
	if d, can := q.d.(Dropper); can {
		return d.Drop(ctx, lambda)
	}
	return nil
}

// ClockStepped tells a driver that counts by the wall clock that it was set.
func (q *Queue) ClockStepped(by time.Duration) {
	if d, counts := q.d.(Stepper); counts {
		d.ClockStepped(by)
	}
}

// Durable reports whether messages outlive the process.
func (q *Queue) Durable() bool { return q.d.Durable() }

// Close ends all waiting Receives.
func (q *Queue) Close() error { return q.d.Close() }
