package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// ErrCannotDeliver refuses what only a driver with queues for consumers outside Kinesin can do.
var ErrCannotDeliver = errors.New(
	"this server's queues cannot hand tasks to consumers outside Kinesin: lambdas in deliver mode need SQS (serve --queue sqs)")

// ErrUndeliverable says of a delivery that no queue will ever take it.
var ErrUndeliverable = errors.New("no queue can carry this payload")

// ErrOtherMode refuses a lambda whose queue is still that of one of its name in the other mode.
var ErrOtherMode = errors.New("a queue is still that of a lambda of this name in the other mode")

// DelayMax is how long a queue may hold a delivery back.
const DelayMax = 15 * time.Minute

// Delivery is a task of a lambda in deliver mode on its way to a consumer that is not Kinesin's.
type Delivery struct {
	// Task says where it goes (its partition's lambda and priority), when it is due, and with which trace
	// context; its Payload is not read.
	Task task.Task
	// ID is the task's public id, as the consumer sees it.
	ID string
	// Payload is what the consumer gets, untouched.
	Payload []byte
	// Delay is how long the queue hides it, 0 to DelayMax. It is rounded up to whole seconds.
	Delay time.Duration
}

// Deliverer is an optional capability of a driver: queues that others than Kinesin read.
type Deliverer interface {
	// Deliver puts deliveries on the queues of their lambdas. results[i] is nil when deliveries[i] is in
	// its queue for good; ErrUndeliverable when trying again cannot help; any other error: it may or may not
	// be there, so that sending it again may have the consumer see it twice.
	Deliver(ctx context.Context, deliveries []Delivery) (results []error)
	// CheckPayload refuses, with ErrUndeliverable and the limit, a payload that Deliver could not send.
	CheckPayload(payload []byte) error
}

// Provisioner is an optional capability of a driver whose queues have to be made before they are used.
type Provisioner interface {
	// CheckLambda refuses, with an error of task.ErrInvalid, a lambda whose queues could not have their
	// names, because these are those of another lambda, or would be of one of the planned ones, which are not
	// there yet.
	CheckLambda(l task.Lambda, planned ...task.Lambda) error
	// Provision makes what is missing of the lambda's queues. It may be repeated, and it is fine not to be
	// allowed to make queues that are there already. Those that a deleted lambda in the other mode left are
	// made what they have to be when they are empty, and are ErrOtherMode when not: what is in them is for
	// other readers.
	Provision(ctx context.Context, l task.Lambda) error
	// Missing names those of the lambda's queues that are not there, for who is not to make them.
	// ErrOtherMode: those that are there have what the other mode wants.
	Missing(ctx context.Context, l task.Lambda) ([]string, error)
}

// Delivers reports whether lambdas in deliver mode have queues here.
func (q *Queue) Delivers() bool {
	_, can := q.d.(Deliverer)
	return can
}

// Deliver puts deliveries on their queues, with an outcome each; see Deliverer. All fail with
// ErrCannotDeliver where the driver cannot.
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
		for k, err := range part {
			results[of[k]] = err
		}
		fit, of = fit[n:], of[n:]
	}
	return results
}

// CheckPayload refuses what could not be delivered, so that a caller learns it when the task is scheduled.
func (q *Queue) CheckPayload(payload []byte) error {
	if d, can := q.d.(Deliverer); can {
		return d.CheckPayload(payload)
	}
	return ErrCannotDeliver
}

// CheckDelay refuses a delay that no queue can keep.
func CheckDelay(d time.Duration) error {
	if d < 0 || d > DelayMax {
		return fmt.Errorf("%w delay %v of a delivery: want 0 to %v", task.ErrInvalid, d, DelayMax)
	}
	return nil
}

// CheckLambda refuses a lambda that cannot have its queues here: deliver mode where the driver cannot
// deliver, or names that the queues cannot have; see Provisioner.
func (q *Queue) CheckLambda(l task.Lambda, planned ...task.Lambda) error {
	if l.Mode == task.Deliver && !q.Delivers() {
		return fmt.Errorf("%w mode deliver of lambda %s: %w", task.ErrInvalid, l.Name, ErrCannotDeliver)
	}
	if p, can := q.d.(Provisioner); can {
		return p.CheckLambda(l, planned...)
	}
	return nil
}

// Provision makes what is missing of a lambda's queues, where queues have to be made.
func (q *Queue) Provision(ctx context.Context, l task.Lambda) error {
	if err := q.CheckLambda(l); err != nil {
		return err
	}
	if p, can := q.d.(Provisioner); can {
		return p.Provision(ctx, l)
	}
	return nil
}

// Missing names those of a lambda's queues that are not there, where queues have to be made.
func (q *Queue) Missing(ctx context.Context, l task.Lambda) ([]string, error) {
	if p, can := q.d.(Provisioner); can {
		return p.Missing(ctx, l)
	}
	return nil, nil
}
