// Package queue is the seam to the lambda queues: one queue per <lambda,
// priority>, through which enqueued tasks reach the workers. It is ready work
// in transit and never the truth: a message that is lost is sent again by the
// scheduler, a message that comes twice is refused at the claim.
//
// Queue is what roles use; Driver is what implementers write.
package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sentinels of the seam.
var (
	// ErrFull says that a queue has its bound; the task stays in the store, where it costs nothing.
	ErrFull = errors.New("queue is full")
	// ErrClosed refuses calls after Close.
	ErrClosed = errors.New("queue is closed")
	// ErrMissing says that the queue itself is not there: it will not be before somebody has made it.
	ErrMissing = errors.New("no such queue")
	// ErrUnreachable says that the service of the queues did not answer, only that it failed, or that it is
	// too busy; a later try may come through.
	ErrUnreachable = errors.New("queue service does not answer")
)

// Limits of one call.
const (
	SendMax    = 4096
	ReceiveMax = 4096
	AheadMax   = time.Second
)

// Queue validates and bounds what roles ask of a Driver.
type Queue struct{ d Driver }

// New wraps a driver.
func New(d Driver) *Queue { return &Queue{d: d} }

// Send puts messages on their queues, with an outcome each.
func (q *Queue) Send(ctx context.Context, messages []Message) []error {
	results := make([]error, 0, len(messages))
	for len(messages) > 0 {
		n := min(len(messages), SendMax)
		part := q.d.Send(ctx, messages[:n])
		if len(part) != n {
			panic(fmt.Sprintf("queue driver answered %d of %d sends", len(part), n))
		}
		results = append(results, part...)
		messages = messages[n:]
	}
	return results
}

// Receive waits for work; see Driver.Receive. limit must be positive and is capped at ReceiveMax; ahead is
// capped at AheadMax. Without names it waits for the end of ctx.
func (q *Queue) Receive(ctx context.Context, names []Name, limit int, ahead time.Duration) ([]Message, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receive %d messages: want 1 to %d", limit, ReceiveMax)
	}
	return q.d.Receive(ctx, names, min(limit, ReceiveMax), min(max(ahead, 0), AheadMax))
}

// Delete removes received messages for good.
func (q *Queue) Delete(ctx context.Context, messages []Message) error {
	return q.d.Delete(ctx, messages)
}

// Release makes received messages visible again after delay.
func (q *Queue) Release(ctx context.Context, messages []Message, delay time.Duration) error {
	return q.d.Release(ctx, messages, delay)
}

// Depth is what is known of one queue.
func (q *Queue) Depth(ctx context.Context, name Name) (Depth, error) { return q.d.Depth(ctx, name) }

// Room is closed when a full queue has room again; nil when the driver cannot tell.
func (q *Queue) Room(name Name) <-chan struct{} { return q.d.Room(name) }

// Drop forgets all messages of a lambda that is gone, where the driver can; elsewhere they
// come to nothing by themselves.
func (q *Queue) Drop(ctx context.Context, lambda uint32) error {
	if d, can := q.d.(Dropper); can {
		return d.Drop(ctx, lambda)
	}
	return nil
}

// ClockStepped tells the driver that the wall clock was set, where it counts by that.
func (q *Queue) ClockStepped(by time.Duration) {
	if d, counts := q.d.(Stepper); counts {
		d.ClockStepped(by)
	}
}

// Durable reports whether messages outlive the process.
func (q *Queue) Durable() bool { return q.d.Durable() }

// Close ends all waiting Receives.
func (q *Queue) Close() error { return q.d.Close() }
