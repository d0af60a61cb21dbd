package sqs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Provision implements queue.Provisioner. Queues that are there stay as they are, but for those that a
// deleted lambda in the other mode left: when they are empty they are made what they have to be.
func (d *Driver) Provision(ctx context.Context, l task.Lambda) error {
	left, missing, err := d.look(ctx, l)
	if err != nil {
		return err
	}
	var refusals []error
	for i := range left {
		refusals = append(refusals, left[i].mustBeEmpty())
	}
	if err := errors.Join(refusals...); err != nil {
		return err
	}
	if len(missing) > 0 {
		if _, err := Create(ctx, d.api, Queues(d.Prefix, l)); err != nil {
			return err
		}
	}
	for i := range left {
		if err := d.turn(ctx, &left[i]); err != nil {
			return err
		}
	}
	return nil
}

// Missing implements queue.Provisioner.
func (d *Driver) Missing(ctx context.Context, l task.Lambda) ([]string, error) {
	left, missing, err := d.look(ctx, l)
	if err != nil {
		return nil, err
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%w (messages in it: about %d); delete it once none is wanted, and apply again what makes it", left[0].refusal(), left[0].messages)
	}
	return missing, nil
}

// leftover is a queue that is there, and as a lambda in the other mode has it.
type leftover struct {
	spec     QueueSpec // as it has to be
	redrive  string    // as it has it
	messages int       // in it, about: also those that are delayed or received
}

// look tells which queues of a lambda are missing, and, unless it is there, which a lambda in the other mode
// left. Those of deliver lambdas have always had a redrive policy, and no others.
func (d *Driver) look(ctx context.Context, l task.Lambda) (left []leftover, missing []string, err error) {
	// Those of one that is there are its own, whatever an operator made of them.
	isThere := slices.ContainsFunc(d.Lambdas(), func(known task.Lambda) bool { return known.Name == l.Name })
	specs := Queues(d.Prefix, l)
	for i := range specs {
		spec := &specs[i]
		url, err := find(ctx, d.api, spec.Name)
		if err != nil {
			return nil, nil, err
		}
		if url == "" {
			missing = append(missing, spec.Name)
			continue
		}
		if isThere || isDeadLetterQueue(specs, spec.Name) {
			continue
		}
		have, err := attributesOf(ctx, d.api, spec.Name, url)
		if err != nil {
			return nil, nil, err
		}
		redrive := redriveText(have[string(types.QueueAttributeNameRedrivePolicy)])
		if (redrive == "") == (spec.DeadLetterQueue == "") {
			continue
		}
		messages := 0
		for _, count := range []types.QueueAttributeName{
			types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
			types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		} {
			messages += countIn(have, count)
		}
		left = append(left, leftover{spec: *spec, redrive: redrive, messages: messages})
	}
	return left, missing, nil
}

// refusal says what is wrong with it.
func (q *leftover) refusal() error {
	if q.redrive == "" {
		return fmt.Errorf("%w: SQS queue %s has no redrive policy, as those of mode managed", queue.ErrOtherMode, q.spec.Name)
	}
	return fmt.Errorf("%w: SQS queue %s has a redrive policy (%s), as those of mode deliver", queue.ErrOtherMode, q.spec.Name, q.redrive)
}

// mustBeEmpty refuses a queue with messages: no worker could read what is for a consumer, and the other way
// round.
func (q *leftover) mustBeEmpty() error {
	if q.messages == 0 {
		return nil
	}
	whose, do := "of Kinesin's own, for a lambda that is gone", ""
	if q.redrive != "" {
		whose, do = "for its consumer", "let that read them, or "
	}
	return fmt.Errorf("%w, and messages %s (about %d): %spurge the queue (aws sqs purge-queue), and create the lambda a minute later, or choose another name",
		q.refusal(), whose, q.messages, do)
}

// turn makes a queue that is empty one of the other mode.
func (d *Driver) turn(ctx context.Context, q *leftover) error {
	changed, err := Align(ctx, d.api, []QueueSpec{q.spec})
	if err != nil {
		return fmt.Errorf("%w. It is empty, and cannot be changed: %w; allow it (sqs:SetQueueAttributes), or delete the queue and create the lambda a minute later",
			q.refusal(), err)
	}
	for i := range changed {
		d.Log.InfoContext(ctx, "queue of a lambda that was in the other mode changed", slog.String("difference", changed[i].String()))
	}
	return nil
}
