package sqsbuffer

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue/sqs"
)

// observed tells an observer of every request to the inbound queue.
type observed struct {
	api   API
	tell  *sqs.Observer
	queue string
	clock clock.Clock
}

// done tells of a request that is over, and of what was refused in it.
func (o *observed) done(began time.Duration, r sqs.Request, failed []types.BatchResultErrorEntry) {
	if o.tell.Request != nil {
		r.Queue, r.Took = o.queue, clock.Mono(o.clock)-began
		o.tell.Request(r)
	}
	if o.tell.Failed != nil {
		for i := range failed {
			o.tell.Failed(o.queue, r.Action, aws.ToString(failed[i].Code))
		}
	}
}

func (o *observed) SendMessageBatch(ctx context.Context, in *awssqs.SendMessageBatchInput, options ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	began := clock.Mono(o.clock)
	out, err := o.api.SendMessageBatch(ctx, in, options...)
	r := sqs.Request{Action: sqs.ActionSend, Entries: len(in.Entries), Err: err}
	for i := range in.Entries {
		r.Bytes += len(aws.ToString(in.Entries[i].MessageBody))
	}
	var failed []types.BatchResultErrorEntry
	if out != nil {
		failed = out.Failed
	}
	o.done(began, r, failed)
	return out, err
}

func (o *observed) ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput, options ...func(*awssqs.Options)) (*awssqs.ReceiveMessageOutput, error) {
	began := clock.Mono(o.clock)
	out, err := o.api.ReceiveMessage(ctx, in, options...)
	r := sqs.Request{Action: sqs.ActionReceive, Err: err}
	if out != nil {
		r.Entries = len(out.Messages)
		for i := range out.Messages {
			r.Bytes += len(aws.ToString(out.Messages[i].Body))
		}
	}
	o.done(began, r, nil)
	return out, err
}

func (o *observed) DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput, options ...func(*awssqs.Options)) (*awssqs.DeleteMessageBatchOutput, error) {
	began := clock.Mono(o.clock)
	out, err := o.api.DeleteMessageBatch(ctx, in, options...)
	var failed []types.BatchResultErrorEntry
	if out != nil {
		failed = out.Failed
	}
	o.done(began, sqs.Request{Action: sqs.ActionDelete, Entries: len(in.Entries), Err: err}, failed)
	return out, err
}

func (o *observed) ChangeMessageVisibilityBatch(
	ctx context.Context, in *awssqs.ChangeMessageVisibilityBatchInput, options ...func(*awssqs.Options),
) (*awssqs.ChangeMessageVisibilityBatchOutput, error) {
	began := clock.Mono(o.clock)
	out, err := o.api.ChangeMessageVisibilityBatch(ctx, in, options...)
	var failed []types.BatchResultErrorEntry
	if out != nil {
		failed = out.Failed
	}
	o.done(began, sqs.Request{Action: sqs.ActionVisibility, Entries: len(in.Entries), Err: err}, failed)
	return out, err
}

func (o *observed) GetQueueUrl(ctx context.Context, in *awssqs.GetQueueUrlInput, options ...func(*awssqs.Options)) (*awssqs.GetQueueUrlOutput, error) { //nolint:revive // the SDK's name
	began := clock.Mono(o.clock)
	out, err := o.api.GetQueueUrl(ctx, in, options...)
	o.done(began, sqs.Request{Action: sqs.ActionURL, Err: err}, nil)
	return out, err
}
