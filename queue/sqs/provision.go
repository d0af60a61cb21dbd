package sqs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Provision implements queue.Provisioner. It leaves existing queues as they are, except those that a deleted
// lambda in the other mode left: when they are empty, it changes their attributes.
func (d *Driver) Provision(ctx context.Context, l task.Lambda) error {
	left, missing, err := d.inspect(ctx, l)
	if err != nil {
		return err
	}
	var errs []error
	for i := range left {
		errs = append(errs, left[i].checkEmpty())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if len(missing) > 0 {
		specs := Queues(d.Prefix, l)
		if _, err := sqsclient.Create(ctx, d.api, specs); err != nil {
			return explain(err)
		}
		d.protect(ctx, slices.DeleteFunc(specs, func(s sqsclient.QueueSpec) bool { return !slices.Contains(missing, s.Name) }))
	}
	for i := range left {
		if err := d.convert(ctx, &left[i]); err != nil {
			return err
		}
	}
	return nil
}

// protect gives new queues their policy. One that cannot be set is no reason to refuse the lambda, since
// messages are sealed, and servers may lack the permission; `kinesin aws setup` sets it later.
func (d *Driver) protect(ctx context.Context, made []sqsclient.QueueSpec) {
	if d.NoPolicies {
		return
	}
	if _, err := sqsclient.Protect(ctx, d.api, made); err != nil {
		d.Log.WarnContext(ctx, "cannot set the policy of a new queue; allow sqs:SetQueueAttributes, or run `kinesin aws setup`",
			slog.Any("error", explain(err)))
	}
}

// Missing implements queue.Provisioner.
func (d *Driver) Missing(ctx context.Context, l task.Lambda) ([]string, error) {
	left, missing, err := d.inspect(ctx, l)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%w (messages in it: about %d); delete it once none is wanted, and apply again what makes it", left[0].err(), left[0].messages)
	}
	return missing, nil
}

// leftover is a queue that a lambda in the other mode left.
type leftover struct {
	spec     sqsclient.QueueSpec // as it must be
	redrive  string              // its redrive policy
	messages int                 // about how many are in it, delayed and received ones included
}

// inspect returns the queues of a lambda that are missing, and, for a new lambda, those that a lambda in the
// other mode left. Queues of deliver lambdas have a redrive policy, and no others have one.
func (d *Driver) inspect(ctx context.Context, l task.Lambda) (left []leftover, missing []string, err error) {
	// The queues of an existing lambda are its own, whatever an operator changed about them.
	exists := slices.ContainsFunc(d.Lambdas(), func(known task.Lambda) bool { return known.Name == l.Name })
	specs := Queues(d.Prefix, l)
	for i := range specs {
		spec := &specs[i]
		have, err := sqsclient.Describe(ctx, d.api, spec.Name)
		if err != nil {
			return nil, nil, explain(err)
		}
		if have == nil {
			missing = append(missing, spec.Name)
			continue
		}
		redrive := sqsclient.RedriveText(have)
		if exists || sqsclient.IsDeadLetterQueue(specs, spec.Name) || (redrive == "") == (spec.DeadLetterQueue == "") {
			continue
		}
		left = append(left, leftover{spec: *spec, redrive: redrive, messages: messagesIn(have)})
	}
	return left, missing, nil
}

// err returns why the queue cannot be used.
func (q *leftover) err() error {
	if q.redrive == "" {
		return fmt.Errorf("%w: SQS queue %s has no redrive policy, as those of mode managed", queue.ErrOtherMode, q.spec.Name)
	}
	return fmt.Errorf("%w: SQS queue %s has a redrive policy (%s), as those of mode deliver", queue.ErrOtherMode, q.spec.Name, q.redrive)
}

// checkEmpty refuses a queue with messages: no worker can read what is for a consumer, and no consumer what
// is for workers.
func (q *leftover) checkEmpty() error {
	if q.messages == 0 {
		return nil
	}
	whose, do := "of Kinesin's own, for a lambda that is gone", ""
	if q.redrive != "" {
		whose, do = "for its consumer", "let that read them, or "
	}
	return fmt.Errorf("%w, and messages %s (about %d): %spurge the queue (aws sqs purge-queue), and create the lambda a minute later, or choose another name",
		q.err(), whose, q.messages, do)
}

// convert changes the attributes of an empty queue to those of the other mode.
func (d *Driver) convert(ctx context.Context, q *leftover) error {
	changed, err := sqsclient.Align(ctx, d.api, []sqsclient.QueueSpec{q.spec})
	if err != nil {
		return fmt.Errorf("%w. It is empty, and cannot be changed: %w; allow it (sqs:SetQueueAttributes), or delete the queue and create the lambda a minute later",
			q.err(), explain(err))
	}
	for i := range changed {
		d.Log.InfoContext(ctx, "changed a queue that a lambda in the other mode left", slog.String("difference", changed[i].String()))
	}
	return nil
}
