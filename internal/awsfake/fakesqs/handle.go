package fakesqs

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/task"
)

// find returns the message of a receipt handle, nil when it is gone, and whether the handle is of its last
// delivery.
func (q *queue) find(handle *string) (m *message, isLast bool, err error) {
	parts := strings.Split(aws.ToString(handle), "/")
	if len(parts) != 3 || parts[0] != q.name {
		return nil, false, &types.ReceiptHandleIsInvalid{Message: aws.String("The input receipt handle is invalid.")}
	}
	m = q.byID[parts[1]]
	return m, m != nil && m.handle == *handle, nil
}

// remove deletes a message. A handle of an earlier delivery succeeds and does nothing.
func (q *queue) remove(call string, handle *string) error {
	m, isLast, err := q.find(handle)
	if err != nil || !isLast {
		return err
	}
	if q.sqs.Faults.Strikes(call, Undead) {
		m.visibleAt = 0
		q.move(m, visible)
		return nil
	}
	q.move(m, gone)
	return nil
}

// changeVisibility hides a message for so many seconds from now.
func (q *queue) changeVisibility(now task.Instant, handle *string, seconds int32) error {
	timeout := time.Duration(seconds) * time.Second
	if timeout < 0 || timeout > visibilityMax {
		return invalidValue("Value %d for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout must be an integer between 0 and 43200.", seconds)
	}
	m, isLast, err := q.find(handle)
	switch {
	case err != nil:
		return err
	case m == nil || !isLast:
		return invalidValue("Value %s for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.", *handle)
	case m.where != inFlight:
		return &types.MessageNotInflight{Message: aws.String("The message referred to isn't in flight.")}
	case now.Add(timeout).Sub(m.last) > visibilityMax:
		return invalidValue("Value %d for parameter VisibilityTimeout is invalid. Reason: Total VisibilityTimeout for the message is beyond the limit [43200 seconds].", seconds)
	}
	m.visibleAt = now.Add(timeout)
	if timeout == 0 {
		q.move(m, visible)
	} else {
		q.move(m, inFlight)
	}
	q.settle(now)
	return nil
}

// DeleteMessage is the client's method.
func (s *SQS) DeleteMessage(ctx context.Context, in *sqs.DeleteMessageInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error) {
	const call = "DeleteMessage"
	return do(ctx, s, call, options, func(now task.Instant) (*sqs.DeleteMessageOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		return &sqs.DeleteMessageOutput{}, q.remove(call, in.ReceiptHandle)
	})
}

// DeleteMessageBatch is the client's method.
func (s *SQS) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	const call = "DeleteMessageBatch"
	return do(ctx, s, call, options, func(now task.Instant) (*sqs.DeleteMessageBatchOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		ids := idsOf(in.Entries, func(e *types.DeleteMessageBatchRequestEntry) *string { return e.Id })
		if err := checkEntries(ids); err != nil {
			return nil, err
		}
		out := &sqs.DeleteMessageBatchOutput{}
		out.Failed = s.each(call, ids,
			func(i int) error { return q.remove(call, in.Entries[i].ReceiptHandle) },
			func(i int) { out.Successful = append(out.Successful, types.DeleteMessageBatchResultEntry{Id: ids[i]}) })
		return out, nil
	})
}

// ChangeMessageVisibility is the client's method.
func (s *SQS) ChangeMessageVisibility(ctx context.Context, in *sqs.ChangeMessageVisibilityInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error) {
	return do(ctx, s, "ChangeMessageVisibility", options, func(now task.Instant) (*sqs.ChangeMessageVisibilityOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		return &sqs.ChangeMessageVisibilityOutput{}, q.changeVisibility(now, in.ReceiptHandle, in.VisibilityTimeout)
	})
}

// ChangeMessageVisibilityBatch is the client's method.
func (s *SQS) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	const call = "ChangeMessageVisibilityBatch"
	return do(ctx, s, call, options, func(now task.Instant) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		ids := idsOf(in.Entries, func(e *types.ChangeMessageVisibilityBatchRequestEntry) *string { return e.Id })
		if err := checkEntries(ids); err != nil {
			return nil, err
		}
		out := &sqs.ChangeMessageVisibilityBatchOutput{}
		out.Failed = s.each(call, ids,
			func(i int) error {
				return q.changeVisibility(now, in.Entries[i].ReceiptHandle, in.Entries[i].VisibilityTimeout)
			},
			func(i int) {
				out.Successful = append(out.Successful, types.ChangeMessageVisibilityBatchResultEntry{Id: ids[i]})
			})
		return out, nil
	})
}
