package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// ErrCannotDeliver refuses deliveries where the driver has no queues for consumers outside Kinesin.
var ErrCannotDeliver = errors.New(
	"this server's queues cannot hand tasks to consumers outside Kinesin: lambdas in deliver mode need SQS (serve --queue sqs)")

// ErrUndeliverable says that no queue will ever take a delivery.
var ErrUndeliverable = errors.New("no queue can carry this payload")

// ErrOtherMode refuses a lambda whose queue a lambda of the same name in the other mode left.
var ErrOtherMode = errors.New("a queue is still that of a lambda of this name in the other mode")

// DelayMax is the longest that a queue can hold back a delivery.
const DelayMax = 15 * time.Minute

// Delivery is a task of a lambda in deliver mode, on its way to a consumer outside Kinesin.
type Delivery struct {
	// Task gives the queue (by the lambda and priority of its partition), the due time and the trace context;
	// its Payload is not read.
	Task task.Task
	// ID is the task's public id, as the consumer sees it.
	ID string
	// Payload is what the consumer gets, unchanged.
	Payload []byte
	// Delay is how long the queue hides it: 0 to DelayMax, rounded up to whole seconds.
	Delay time.Duration
}

// Deliverer is an optional capability of a driver: queues that consumers outside Kinesin read.
type Deliverer interface {
	// Deliver puts deliveries on the queues of their lambdas. results[i] is nil when deliveries[i] is durable
	// in its queue, and ErrUndeliverable when trying again cannot help. After any other error it may or may
	// not be there; if it is sent again, the consumer may see it twice.
	Deliver(ctx context.Context, deliveries []Delivery) (results []error)
	// CheckPayload refuses a payload that Deliver could not send, with ErrUndeliverable and the limit.
	CheckPayload(payload []byte) error
}

// Provisioner is an optional capability of a driver whose queues must be created before they are used.
type Provisioner interface {
	// CheckLambda refuses, with task.ErrInvalid, a lambda whose queues would get the names of another
	// lambda's queues. planned are lambdas that are about to be created.
	CheckLambda(l task.Lambda, planned ...task.Lambda) error
	// Provision creates the lambda's missing queues. It may be repeated, and needs no permission to create
	// queues that exist. Queues that a deleted lambda in the other mode left are changed when they are empty;
	// with messages in them, which are for other readers, it returns ErrOtherMode.
	Provision(ctx context.Context, l task.Lambda) error
	// Missing returns the names of the lambda's queues that do not exist, for callers that must not create
	// them. ErrOtherMode says that existing ones have the attributes of the other mode.
	Missing(ctx context.Context, l task.Lambda) ([]string, error)
}

// Delivers reports whether the driver has queues for lambdas in deliver mode.
func (q *Queue) Delivers() bool {
	_, can := q.d.(Deliverer)
	return can
}

// Deliver puts deliveries on their queues and returns a result for each; see Deliverer. All are
// ErrCannotDeliver if the driver cannot.
func (q *Queue) Deliver(ctx context.Context, deliveries []Delivery) []error {
	d, can := q.d.(Deliverer)
	results := make([]error, len(deliveries))
	fit := make([]Delivery, 0, len(deliveries))
	of := make([]int, 0, len(deliveries))
	for i := range deliveries {
		if results[i] = ErrCannotDeliver; can {
			results[i] = CheckDelay(deliveries[i].Delay)
		}
		if results[i] == nil {
			fit, of = append(fit, deliveries[i]), append(of, i)
		}
	}
	for len(fit) > 0 {
		n := min(len(fit), SendMax)
		part := d.Deliver(ctx, fit[:n])
		if len(part) != n {
			panic(fmt.Sprintf("queue driver answered %d of %d deliveries", len(part), n))
		}
		q.answered(part...)
		for k, err := range part {
			results[of[k]] = err
		}
		fit, of = fit[n:], of[n:]
	}
	return results
}

// CheckPayload refuses a payload that could not be delivered, when the task is scheduled.
func (q *Queue) CheckPayload(payload []byte) error {
	if d, can := q.d.(Deliverer); can {
		return d.CheckPayload(payload)
	}
	return ErrCannotDeliver
}

// CheckDelay refuses a delay that no queue supports.
func CheckDelay(d time.Duration) error {
	if d < 0 || d > DelayMax {
		return fmt.Errorf("%w delay %v of a delivery: want 0 to %v", task.ErrInvalid, d, DelayMax)
	}
	return nil
}

// CheckLambda refuses a lambda that cannot have queues here: one in deliver mode if the driver cannot
// deliver, or one whose queues would get taken names; see Provisioner.
func (q *Queue) CheckLambda(l task.Lambda, planned ...task.Lambda) error {
	if l.Mode == task.Deliver && !q.Delivers() {
		return fmt.Errorf("%w mode deliver of lambda %s: %w", task.ErrInvalid, l.Name, ErrCannotDeliver)
	}
	if p, can := q.d.(Provisioner); can {
		return p.CheckLambda(l, planned...)
	}
	return nil
}

// Provision creates a lambda's missing queues, if the driver's queues must be created.
func (q *Queue) Provision(ctx context.Context, l task.Lambda) error {
	if err := q.CheckLambda(l); err != nil {
		return err
	}
	if p, can := q.d.(Provisioner); can {
		return p.Provision(ctx, l)
	}
	return nil
}

// Missing returns the names of a lambda's queues that do not exist, if the driver's queues must be created.
func (q *Queue) Missing(ctx context.Context, l task.Lambda) ([]string, error) {
	if p, can := q.d.(Provisioner); can {
		return p.Missing(ctx, l)
	}
	return nil, nil
}
