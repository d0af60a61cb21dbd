// Package sqsbuffer is the inbound buffer on an SQS queue: P-inbound for an AWS prefix P, with P-inbound-dlq
// behind it as the last resort. It owns the requests: batches, long polls, visibility. It never looks into a
// message; packing several tasks into one is done above, in package api/envelope.
package sqsbuffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqssend"
	"github.com/kinesin-io/kinesin/queue/sqs"
)

// Settings of the queue and of the requests.
const (
	VisibilityDefault     = 30 * time.Second
	RequestTimeoutDefault = 5 * time.Second
	PollGraceDefault      = time.Second
	pollWait              = 20 * time.Second    // the longest that SQS allows
	entryTriesMax         = 3                   // of messages that SQS refused one by one for the moment
	retention             = 14 * 24 * time.Hour // the longest that SQS allows
	// receivesMax sends a message to the dead-letter queue. The consumer sets aside what it cannot take long before that;
	// it is for what keeps a consumer from saying so, and far above what an outage of the store costs.
	receivesMax = 1000
)

// API is what a Buffer asks of the AWS SDK's client; *sqs.Client has it.
type API interface {
	sqssend.API
	ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput, options ...func(*awssqs.Options)) (*awssqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(ctx context.Context, in *awssqs.DeleteMessageBatchInput, options ...func(*awssqs.Options)) (*awssqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(ctx context.Context, in *awssqs.ChangeMessageVisibilityBatchInput, options ...func(*awssqs.Options)) (*awssqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *awssqs.GetQueueUrlInput, options ...func(*awssqs.Options)) (*awssqs.GetQueueUrlOutput, error)
}

// QueueName is the name of the inbound queue.
func QueueName(prefix string) string { return prefix + "-inbound" }

// Queues are the inbound queue and its dead-letter queue, in the order in which they can be made.
func Queues(prefix string) []sqs.QueueSpec {
	name, dlq := QueueName(prefix), QueueName(prefix)+"-dlq"
	seconds := int(retention / time.Second)
	return []sqs.QueueSpec{
		{Name: dlq, MessageRetentionSeconds: seconds, ManagedSSE: true},
		{
			Name: name, VisibilityTimeoutSeconds: int(VisibilityDefault / time.Second), MessageRetentionSeconds: seconds, ManagedSSE: true,
			DeadLetterQueue: dlq, MaxReceiveCount: receivesMax,
		},
	}
}

// Config are the settings of a Buffer. Prefix and Clock are required; a zero duration or size means its default.
type Config struct {
	Prefix string // of all queues
	Clock  clock.Clock
	// MessageBytesMax bounds a message, and all messages of a request: 256 KiB. Queues that take 1 MiB may have it larger.
	MessageBytesMax int
	// Visibility is after which time a received message that was neither deleted nor retried is received again: 30 s. A
	// consumer that takes longer keeps it hidden with Retry.
	Visibility time.Duration
	// RequestTimeout bounds every request but the wait of a poll: 5 s.
	RequestTimeout time.Duration
	// PollGrace is how long a poll may go on when nobody waits for it any more: 1 s; negative: not at all. What it has just
	// got would be hidden from everybody for the visibility timeout if it were cut off.
	PollGrace time.Duration
	// Observer is told of every request (Request) and of every message that SQS refused by itself (Failed); nil: nobody is.
	Observer *sqs.Observer
}

// Buffer is a buffer.Buffer.
type Buffer struct {
	Config

	api  API
	ctx  context.Context //nolint:containedctx // ends polls when the buffer is closed
	stop context.CancelCauseFunc

	mu  sync.Mutex // guards url
	url string
}

var _ buffer.Buffer = (*Buffer)(nil)

// New returns a Buffer. It makes no request before the first call, and none of the queue's settings is its own to change.
func New(api API, c Config) *Buffer {
	c.MessageBytesMax = cmp.Or(c.MessageBytesMax, sqssend.BytesMaxDefault)
	c.Visibility = cmp.Or(c.Visibility, VisibilityDefault)
	c.PollGrace = max(0, cmp.Or(c.PollGrace, PollGraceDefault))
	c.RequestTimeout = cmp.Or(c.RequestTimeout, RequestTimeoutDefault)
	if c.Observer != nil {
		api = &observed{api: api, tell: c.Observer, queue: QueueName(c.Prefix), clock: c.Clock}
	}
	b := &Buffer{Config: c, api: api}
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	return b
}

// BodyBytesMax is how large a body may be, and all bodies of one request.
func (b *Buffer) BodyBytesMax() int { return b.MessageBytesMax }

// Close ends polls.
func (b *Buffer) Close() error {
	b.stop(buffer.ErrClosed)
	return nil
}

func (b *Buffer) closed() error {
	if b.ctx.Err() != nil {
		return buffer.ErrClosed
	}
	return nil
}

// queue finds the queue's address, and runs one request with it.
func (b *Buffer) queue(ctx context.Context, wait time.Duration, call func(ctx context.Context, url string) error) error {
	if err := b.closed(); err != nil {
		return err
	}
	ctx, cancel := clock.Within(ctx, b.Clock, b.RequestTimeout+wait)
	defer cancel()
	url, err := b.address(ctx)
	if err == nil {
		err = call(ctx, url)
	}
	if err == nil {
		return nil
	}
	if sqssend.IsMissing(err) {
		b.forgetAddress()
		return fmt.Errorf("SQS queue %s is not there, `kinesin aws setup` makes it: %w", QueueName(b.Prefix), err)
	}
	return fmt.Errorf("SQS queue %s: %w", QueueName(b.Prefix), err)
}

func (b *Buffer) address(ctx context.Context) (string, error) {
	b.mu.Lock()
	url := b.url
	b.mu.Unlock()
	if url != "" {
		return url, nil
	}
	out, err := b.api.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String(QueueName(b.Prefix))})
	if err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.url = aws.ToString(out.QueueUrl)
	return b.url, nil
}

func (b *Buffer) forgetAddress() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.url = ""
}

// Send sends messages. What SQS refuses for the moment is sent once more; the SDK retries requests by itself.
func (b *Buffer) Send(ctx context.Context, messages []buffer.Outgoing) []error {
	results := make([]error, len(messages))
	var at []int
	for i, m := range messages {
		switch {
		case len(m.Body) > b.MessageBytesMax:
			results[i] = fmt.Errorf("%w: %d bytes, at most %d are allowed", buffer.ErrTooLarge, len(m.Body), b.MessageBytesMax)
		case m.Delay < 0 || m.Delay > buffer.DelayMax:
			results[i] = fmt.Errorf("delay of %v: want 0s to %v", m.Delay, buffer.DelayMax)
		default:
			at = append(at, i)
		}
	}
	again := b.send(ctx, messages, at, results)
	if len(again) > 0 && len(again) < len(at) {
		b.send(ctx, messages, again, results)
	}
	return results
}

// send sends some of the messages; it returns those that SQS refused by themselves, for the moment.
func (b *Buffer) send(ctx context.Context, messages []buffer.Outgoing, at []int, results []error) (again []int) {
	if len(at) == 0 {
		return nil
	}
	some := make([]sqssend.Message, len(at))
	for n, i := range at {
		some[n] = sqssend.Message{Body: messages[i].Body, DelaySeconds: int32(math.Ceil(messages[i].Delay.Seconds()))}
	}
	var outcomes []error
	err := b.queue(ctx, 0, func(ctx context.Context, url string) error {
		outcomes = sqssend.Send(ctx, b.api, url, some, b.MessageBytesMax)
		if i := slices.IndexFunc(outcomes, sqssend.IsMissing); i >= 0 {
			return outcomes[i]
		}
		return nil
	})
	for n, i := range at {
		results[i] = err
		if outcomes != nil {
			results[i] = outcomes[n]
		}
		if entry, single := errors.AsType[*sqssend.Error](results[i]); single && !entry.SenderFault {
			again = append(again, i)
		}
	}
	return again
}

// Receive polls once: at once when messages are there, up to 20 s otherwise.
func (b *Buffer) Receive(ctx context.Context, limit int) ([]buffer.Message, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receive %d messages: want 1 to %d", limit, buffer.BatchMax)
	}
	var out *awssqs.ReceiveMessageOutput
	polling, stop := b.polling(ctx)
	defer stop()
	err := b.queue(polling, pollWait, func(ctx context.Context, url string) (err error) {
		out, err = b.api.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: int32(min(limit, buffer.BatchMax)),
			WaitTimeSeconds: int32(pollWait / time.Second), VisibilityTimeout: int32(math.Ceil(b.Visibility.Seconds())),
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
		})
		return err
	})
	switch {
	case err == nil:
		return messagesOf(out), nil
	case b.ctx.Err() != nil:
		return nil, buffer.ErrClosed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	return nil, err
}

// polling is the context of a poll: it ends a while after ctx does, and when the buffer is closed.
func (b *Buffer) polling(ctx context.Context) (polling context.Context, stop func()) {
	polling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	closing := context.AfterFunc(b.ctx, cancel)
	var ends sync.WaitGroup
	ends.Add(1)
	leaving := context.AfterFunc(ctx, func() {
		defer ends.Done()
		_ = clock.Sleep(polling, b.Clock, b.PollGrace)
		cancel()
	})
	return polling, func() {
		cancel()
		closing()
		if leaving() {
			ends.Done()
		}
		ends.Wait()
	}
}

func messagesOf(out *awssqs.ReceiveMessageOutput) []buffer.Message {
	messages := make([]buffer.Message, len(out.Messages))
	for i := range out.Messages {
		m := &out.Messages[i]
		receives, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
		if err != nil || receives < 1 {
			receives = 1
		}
		messages[i] = buffer.Message{Body: aws.ToString(m.Body), Receives: receives, Receipt: aws.ToString(m.ReceiptHandle)}
	}
	return messages
}

// Delete removes received messages.
func (b *Buffer) Delete(ctx context.Context, messages []buffer.Message) error {
	return b.inBatches(ctx, messages, func(ctx context.Context, url string, part []buffer.Message) ([]types.BatchResultErrorEntry, error) {
		entries := make([]types.DeleteMessageBatchRequestEntry, len(part))
		for i := range part {
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &part[i].Receipt}
		}
		out, err := b.api.DeleteMessageBatch(ctx, &awssqs.DeleteMessageBatchInput{QueueUrl: &url, Entries: entries})
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// Retry makes received messages visible again after a while.
func (b *Buffer) Retry(ctx context.Context, messages []buffer.Message, after time.Duration) error {
	if after < 0 || after > buffer.RetryMax {
		return fmt.Errorf("retry after %v: want 0s to %v", after, buffer.RetryMax)
	}
	seconds := int32(math.Ceil(after.Seconds()))
	return b.inBatches(ctx, messages, func(ctx context.Context, url string, part []buffer.Message) ([]types.BatchResultErrorEntry, error) {
		entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(part))
		for i := range part {
			entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
				Id: aws.String(strconv.Itoa(i)), ReceiptHandle: &part[i].Receipt, VisibilityTimeout: seconds,
			}
		}
		out, err := b.api.ChangeMessageVisibilityBatch(ctx, &awssqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url, Entries: entries})
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// inBatches makes requests of up to BatchMax messages. Messages that SQS refused for the moment are tried again.
func (b *Buffer) inBatches(ctx context.Context, messages []buffer.Message, request func(context.Context, string, []buffer.Message) ([]types.BatchResultErrorEntry, error)) error {
	var errs []error
	for part := range slices.Chunk(messages, buffer.BatchMax) {
		errs = append(errs, b.queue(ctx, 0, func(ctx context.Context, url string) error {
			for try := 1; ; try++ {
				failed, err := request(ctx, url, part)
				if err != nil {
					return err
				}
				again, err := refused(part, failed)
				if len(again) == 0 || try == entryTriesMax {
					return err
				}
				part = again
			}
		}))
	}
	return errors.Join(errs...)
}

// gone are the codes of messages that are no longer in hand: deleted, or visible again. Nothing is left to do for them here.
var gone = []string{"ReceiptHandleIsInvalid", "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight"}

// refused are the messages worth another try, and what is wrong with one of all that were refused.
func refused(part []buffer.Message, failed []types.BatchResultErrorEntry) (again []buffer.Message, err error) {
	for _, f := range failed {
		if slices.Contains(gone, aws.ToString(f.Code)) {
			continue
		}
		e := &sqssend.Error{Code: aws.ToString(f.Code), Text: aws.ToString(f.Message), SenderFault: f.SenderFault}
		err = fmt.Errorf("%d of %d messages: %w", len(failed), len(part), e)
		if i, atoiErr := strconv.Atoi(aws.ToString(f.Id)); atoiErr == nil && i >= 0 && i < len(part) && !f.SenderFault {
			again = append(again, part[i])
		}
	}
	return again, err
}
