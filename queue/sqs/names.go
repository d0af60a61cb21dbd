package sqs

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	queueNameMax = 80 // characters; SQS's own bound
	// inboundName follows the prefix in the name of the inbound buffer's queue.
	inboundName = "inbound"

	// managedRetention is how long SQS keeps a message that only Kinesin reads; the scheduler sends it again.
	managedRetention = 4 * 24 * time.Hour
	// deliverRetention is the longest that SQS keeps a message. A consumer that is slower loses it.
	deliverRetention = 14 * 24 * time.Hour
	// DeliverReceivesMax is how often a delivered message is received before it goes to the dead-letter
	// queue.
	DeliverReceivesMax = 10
)

// QueueName returns the name of the SQS queue of a lambda's priority.
func QueueName(prefix string, l *task.Lambda, priority string) string {
	name := prefix + "-" + l.Name + "-" + priority
	if l.FIFO {
		return name + sqsclient.FIFOSuffix
	}
	return name
}

// Queues returns the SQS queues of a lambda, in the order in which they can be created.
func Queues(prefix string, l task.Lambda) []sqsclient.QueueSpec {
	specs := make([]sqsclient.QueueSpec, 0, 2*len(l.Priorities))
	for _, priority := range l.Priorities {
		name := QueueName(prefix, &l, priority)
		if l.Mode != task.Deliver {
			specs = append(specs, sqsclient.QueueSpec{
				Name: name, VisibilityTimeoutSeconds: seconds(visibility),
				MessageRetentionSeconds: seconds(managedRetention), ManagedSSE: true,
			})
			continue
		}
		dlq := sqsclient.DLQName(name)
		specs = append(specs,
			sqsclient.QueueSpec{Name: dlq, MessageRetentionSeconds: seconds(deliverRetention), ManagedSSE: true},
			sqsclient.QueueSpec{
				Name: name, MessageRetentionSeconds: seconds(deliverRetention), ManagedSSE: true,
				DeadLetterQueue: dlq, MaxReceiveCount: DeliverReceivesMax,
			})
	}
	return specs
}

func seconds(d time.Duration) int { return int(d / time.Second) }

// queueName returns the name of a lane's queue and the mode of its lambda.
func (d *Driver) queueName(key laneKey) (name string, mode task.Mode, err error) {
	l, found := d.Lambda(key.lambda)
	if !found || int(key.priority) >= len(l.Priorities) {
		return "", 0, fmt.Errorf("%w: no lambda with reference %08x and priority %d is known here", ErrNoQueue, key.lambda, key.priority)
	}
	return QueueName(d.Prefix, &l, l.Priorities[key.priority]), l.Mode, nil
}

// CheckLambda implements queue.Provisioner.
func (d *Driver) CheckLambda(l task.Lambda, planned ...task.Lambda) error {
	var errs []error
	inbound := d.Prefix + "-" + inboundName
	taken := map[string]string{inbound: "that of the inbound buffer", inbound + sqsclient.DLQSuffix: "that of the inbound buffer"}
	for _, other := range slices.Concat(d.Lambdas(), planned) {
		if other.Name == l.Name {
			continue
		}
		for _, q := range Queues(d.Prefix, other) {
			taken[q.Name] = "one of lambda " + other.Name
		}
	}
	for _, q := range Queues(d.Prefix, l) {
		if len(q.Name) > queueNameMax {
			errs = append(errs, fmt.Errorf("%w lambda %s: its SQS queue would be named %s, which has %d characters and may have %d; "+
				"shorten the lambda's name, its priorities or the AWS prefix", task.ErrInvalid, l.Name, q.Name, len(q.Name), queueNameMax))
		}
		if whose := taken[q.Name]; whose != "" {
			errs = append(errs, fmt.Errorf("%w lambda %s: its SQS queue %s would be %s; choose another name", task.ErrInvalid, l.Name, q.Name, whose))
		}
		taken[q.Name] = "another one of its own"
	}
	return errors.Join(errs...)
}

// ErrNoQueue says that an SQS queue does not exist.
var ErrNoQueue = fmt.Errorf("%w in SQS", queue.ErrMissing)

// explain wraps an error of SQS in the seam's sentinel, and says what to do about it. A request that its
// caller cancelled says nothing about SQS.
func explain(err error) error {
	switch {
	case sqsclient.IsMissing(err):
		return fmt.Errorf("%w: %w; `kinesin lambda create` makes the queues of a lambda when it may, `kinesin aws setup` those of all", ErrNoQueue, err)
	case sqsclient.IsTemporary(err):
		return fmt.Errorf("%w: %w", queue.ErrUnreachable, err)
	}
	return err
}

// explain explains an error about a queue of that name. Setup does not help when Terraform makes the queue.
func (d *Driver) explain(name string, err error) error {
	if d.Registered == nil || !sqsclient.IsMissing(err) {
		return explain(err)
	}
	hasQueue := func(l task.Lambda) bool {
		return d.Registered(l.Name) && slices.ContainsFunc(Queues(d.Prefix, l), func(q sqsclient.QueueSpec) bool { return q.Name == name })
	}
	all := d.Lambdas()
	i := slices.IndexFunc(all, hasQueue)
	if i < 0 {
		return explain(err)
	}
	return fmt.Errorf("%w: %w; Terraform makes those of lambda %s: apply its module call, or put it back and apply; "+
		"to give the lambda up instead: `kinesin lambda delete %s --drop`", ErrNoQueue, err, all[i].Name, all[i].Name)
}
