package sqs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// deadLetterWait is how long a poll of a dead-letter queue waits. A poll that does not wait asks only
	// some of SQS's machines.
	deadLetterWait = time.Second
	// stepPollsMax bounds the polls of one ChangeDeadLetters.
	stepPollsMax = 1000
	// moveLooksMax bounds how often a new move is looked for, every moveLookEvery.
	moveLooksMax  = 3
	moveLookEvery = time.Second
)

var _ queue.DeadLetters = (*Driver)(nil)

// FindDeadLetters implements queue.DeadLetters.
func (d *Driver) FindDeadLetters(ctx context.Context, l task.Lambda, priority string) (queue.DeadLetterQueue, error) {
	q := queue.DeadLetterQueue{Priority: priority, Source: QueueName(d.Prefix, &l, priority)}
	if err := d.usable(ctx); err != nil {
		return q, err
	}
	have, err := d.client.Attributes(ctx, q.Source, types.QueueAttributeNameRedrivePolicy)
	if err != nil {
		return q, denied(err)
	}
	redrive, found, err := sqsclient.ParseRedrive(have)
	if err != nil {
		return q, fmt.Errorf("%w: SQS queue %s: %w", queue.ErrNoDeadLetters, q.Source, err)
	}
	if !found {
		return q, fmt.Errorf("%w: SQS queue %s has no redrive policy, so its messages are received again until they are too old; "+
			"`kinesin aws setup` or the Terraform module lambda gives it one, to %s", queue.ErrNoDeadLetters, q.Source, sqsclient.DLQName(q.Source))
	}
	q.Name, q.Handle, q.ReceivesMax = redrive.Name, redrive.ARN, redrive.ReceivesMax
	return q, nil
}

func redriveOf(q *queue.DeadLetterQueue) sqsclient.Redrive {
	return sqsclient.Redrive{ARN: q.Handle, Name: q.Name, ReceivesMax: q.ReceivesMax}
}

// denied marks a refusal by the permissions of this process.
func denied(err error) error {
	if sqsclient.IsDenied(err) {
		return fmt.Errorf("%w: %w (docs/how-to/aws.md, Permissions)", queue.ErrDenied, err)
	}
	return err
}

// CountDeadLetters implements queue.DeadLetters. Received messages count, since somebody only looks at them.
func (d *Driver) CountDeadLetters(ctx context.Context, q *queue.DeadLetterQueue) (int, *queue.Move, error) {
	have, err := d.client.Attributes(ctx, q.Name, depthAttributes...)
	if err != nil {
		return 0, nil, denied(err)
	}
	latest, err := d.latestMove(ctx, q)
	switch {
	case errors.Is(err, queue.ErrNoMoves):
		latest = nil
	case err != nil: // the count is of use without it
		latest = &queue.Move{State: queue.MoveUnknown, Problem: err.Error()}
	}
	return messagesIn(have), latest, nil
}

func (d *Driver) latestMove(ctx context.Context, q *queue.DeadLetterQueue) (*queue.Move, error) {
	m, err := d.client.LatestMove(ctx, redriveOf(q))
	switch {
	case sqsclient.IsUnsupported(err):
		return nil, fmt.Errorf("%w: %w", queue.ErrNoMoves, err)
	case err != nil || m == nil:
		return nil, denied(err)
	}
	return &queue.Move{
		State: strings.ToLower(aws.ToString(m.Status)), Moved: m.ApproximateNumberOfMessagesMoved,
		Total: aws.ToInt64(m.ApproximateNumberOfMessagesToMove), Started: task.FromMillis(m.StartedTimestamp), Problem: aws.ToString(m.FailureReason),
	}, nil
}

// MoveDeadLetters implements queue.DeadLetters. SQS runs one move of a queue at a time.
func (d *Driver) MoveDeadLetters(ctx context.Context, q *queue.DeadLetterQueue, pace int) (queue.Move, error) {
	latest, err := d.latestMove(ctx, q)
	if err != nil {
		return queue.Move{}, err
	}
	if latest != nil && latest.State == queue.MoveRunning {
		return *latest, nil
	}
	err = d.client.StartMove(ctx, redriveOf(q), pace)
	if sqsclient.IsUnsupported(err) {
		return queue.Move{}, fmt.Errorf("%w: %w", queue.ErrNoMoves, err)
	} else if err != nil {
		return queue.Move{}, denied(err)
	}
	return d.newMove(ctx, q, latest), nil
}

// newMove returns the move that was started after another one, which SQS may still say is the latest.
func (d *Driver) newMove(ctx context.Context, q *queue.DeadLetterQueue, before *queue.Move) queue.Move {
	for range moveLooksMax {
		latest, err := d.latestMove(ctx, q)
		if err == nil && latest != nil && (before == nil || latest.Started != before.Started) {
			return *latest
		}
		if clock.Sleep(ctx, d.Clock, moveLookEvery) != nil {
			break
		}
	}
	return queue.Move{State: queue.MoveRunning} // a later look at it says more
}

// PurgeDeadLetters implements queue.DeadLetters.
func (d *Driver) PurgeDeadLetters(ctx context.Context, q *queue.DeadLetterQueue) error {
	err := d.client.Purge(ctx, q.Name)
	if _, purging := errors.AsType[*types.PurgeQueueInProgress](err); purging {
		return fmt.Errorf("%w: SQS queue %s; SQS does it once a minute", queue.ErrPurging, q.Name)
	}
	return denied(err)
}

// PeekDeadLetters implements queue.DeadLetters.
func (d *Driver) PeekDeadLetters(ctx context.Context, q *queue.DeadLetterQueue, limit, bytesMax int) ([]queue.DeadLetter, error) {
	var all []queue.DeadLetter
	var received []sqsclient.Hidden
	defer func() { // what stays hidden after an error is visible again in half a minute
		_ = d.client.Hide(context.WithoutCancel(ctx), q.Name, received)
	}()
	seen := map[string]bool{}
	for bytes := 0; len(received) < limit && (bytesMax == 0 || bytes < bytesMax); {
		some, err := d.receiveDead(ctx, q, limit-len(received))
		if err != nil {
			return nil, err
		}
		if len(some) == 0 {
			break
		}
		for i := range some {
			received = append(received, sqsclient.Hidden{Receipt: aws.ToString(some[i].ReceiptHandle)})
			l := deadLetterOf(&some[i])
			if seen[l.MessageID] {
				continue
			}
			seen[l.MessageID] = true
			if bytes += l.PayloadBytes; bytesMax == 0 {
				l.Payload = nil
			}
			all = append(all, l)
		}
	}
	return all, nil
}

func (d *Driver) receiveDead(ctx context.Context, q *queue.DeadLetterQueue, most int) ([]types.Message, error) {
	some, err := d.client.Receive(ctx, q.Name, sqsclient.Poll{Max: most, Visibility: queue.DeadLetterHiddenMax, Attributes: []string{"All"}, Wait: deadLetterWait})
	return some, denied(err)
}

func deadLetterOf(m *types.Message) queue.DeadLetter {
	text := func(name string) string {
		v := m.MessageAttributes[name]
		return aws.ToString(v.StringValue)
	}
	l := queue.DeadLetter{
		TaskID: text(AttributeTaskID), MessageID: aws.ToString(m.MessageId), Receives: sqsclient.Receives(m), Payload: []byte(aws.ToString(m.Body)),
		Sent: sentAt(m),
	}
	if due, err := time.Parse(dueForm, text(AttributeDue)); err == nil {
		l.Due = task.InstantOf(due)
	}
	switch text(AttributeEncoding) {
	case EncodingEmpty:
		l.Payload = nil
	case EncodingBase64:
		if payload, err := base64.StdEncoding.DecodeString(aws.ToString(m.Body)); err == nil {
			l.Payload = payload
		}
	}
	l.PayloadBytes = len(l.Payload)
	return l
}

// sentAt returns when a message was put on its first queue; 0 when SQS does not say.
func sentAt(m *types.Message) task.Instant {
	millis, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return 0
	}
	return task.FromMillis(millis)
}

// ChangeDeadLetters implements queue.DeadLetters. A message that fails again while it redrives has been sent
// later, so that the change comes to an end.
func (d *Driver) ChangeDeadLetters(ctx context.Context, q *queue.DeadLetterQueue, s queue.DeadLetterStep) (changed int, more bool, err error) {
	began, most := clock.Mono(d.Clock), sqsclient.BatchMax
	if s.Pace > 0 {
		most = min(most, s.Pace) // so that no pause is longer than a second
	}
	for range stepPollsMax {
		some, err := d.receiveDead(ctx, q, most)
		if err != nil {
			return changed, false, err
		}
		received := len(some)
		some = slices.DeleteFunc(some, func(m types.Message) bool { return sentAt(&m) > s.Before })
		n, err := d.changeBatch(ctx, q, s.Redrive, some)
		changed += n
		if err != nil || received == 0 {
			return changed, false, err
		}
		if s.Pace > 0 {
			if err := clock.Sleep(ctx, d.Clock, time.Duration(n)*time.Second/time.Duration(s.Pace)); err != nil {
				return changed, true, err
			}
		}
		if clock.Mono(d.Clock)-began >= s.For {
			return changed, changed > 0, nil
		}
	}
	return changed, changed > 0, nil
}

// changeBatch deletes received messages, of a redrive only those that are on the lambda's queue again.
func (d *Driver) changeBatch(ctx context.Context, q *queue.DeadLetterQueue, redrive bool, some []types.Message) (changed int, err error) {
	var receipts []string
	var failed error
	if redrive {
		back := make([]sqsclient.Message, len(some))
		for i := range some {
			back[i] = sqsclient.Message{
				Body: aws.ToString(some[i].Body), Typed: some[i].MessageAttributes, GroupID: some[i].Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
			}
			if sqsclient.IsFIFO(q.Source) { // another one than it was sent with, which SQS may still remember
				back[i].DeduplicationID = aws.ToString(some[i].MessageId)
			}
		}
		for i, err := range d.client.Send(ctx, q.Source, back) {
			if err != nil {
				failed = denied(err)
				continue
			}
			receipts = append(receipts, aws.ToString(some[i].ReceiptHandle))
		}
	} else {
		for i := range some {
			receipts = append(receipts, aws.ToString(some[i].ReceiptHandle))
		}
	}
	if err := d.client.Delete(context.WithoutCancel(ctx), q.Name, receipts); err != nil {
		return 0, errors.Join(failed, denied(err))
	}
	return len(receipts), failed
}
