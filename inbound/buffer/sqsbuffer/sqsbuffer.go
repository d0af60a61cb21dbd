// Package sqsbuffer is the inbound buffer on an SQS queue: P-inbound for an AWS prefix P, with the
// dead-letter queue P-inbound-dlq as a last resort. Package internal/sqsclient makes the requests. Messages
// are opaque here; package api/envelope packs tasks into them.
package sqsbuffer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
)

// Settings of the queue and of the requests.
const (
	VisibilityDefault     = 30 * time.Second
	RequestTimeoutDefault = 5 * time.Second
	PollGraceDefault      = time.Second
	retention             = 14 * 24 * time.Hour // the longest that SQS allows
	// receivesMax is when a message goes to the dead-letter queue. It is far above the receives during an
	// outage of the store, and the consumer sets aside much earlier the messages that it cannot read.
	receivesMax = 1000
)

// QueueName returns the name of the inbound queue.
func QueueName(prefix string) string { return prefix + "-inbound" }

// Queues returns the inbound queue and its dead-letter queue, in the order in which they can be created.
func Queues(prefix string) []sqsclient.QueueSpec {
	name, dlq := QueueName(prefix), QueueName(prefix)+sqsclient.DLQSuffix
	seconds := int(retention / time.Second)
	return []sqsclient.QueueSpec{
		{Name: dlq, MessageRetentionSeconds: seconds, ManagedSSE: true},
		{
			Name: name, VisibilityTimeoutSeconds: int(VisibilityDefault / time.Second), MessageRetentionSeconds: seconds, ManagedSSE: true,
			DeadLetterQueue: dlq, MaxReceiveCount: receivesMax,
		},
	}
}

// Config are the settings of a Buffer. Prefix and Clock are required; a zero duration or size means its
// default.
type Config struct {
	Prefix string // of the names of all queues
	Clock  clock.Clock
	// MessageBytesMax bounds a message, and all messages of one request: 256 KiB. It may be larger for queues
	// that take 1 MiB.
	MessageBytesMax int
	// Visibility is when a received message that was neither deleted nor retried is received again: 30 s.
	// A slower consumer keeps it hidden with Retry.
	Visibility time.Duration
	// RequestTimeout bounds every request, in addition to the wait of a long poll: 5 s.
	RequestTimeout time.Duration
	// PollGrace is how long a poll goes on after its caller left: 1 s; negative: not at all. If it were
	// cancelled at once, messages that SQS just handed out would stay hidden for the visibility timeout.
	PollGrace time.Duration
	// Observer has hooks for metrics; nil is fine.
	Observer *sqsclient.Observer
}

// Buffer is a buffer.Buffer.
type Buffer struct {
	Config

	queue  string
	client *sqsclient.Client
	closed atomic.Bool
}

var _ buffer.Buffer = (*Buffer)(nil)

// New returns a Buffer. It makes no request before the first call, and never changes the queue's attributes.
func New(api sqsclient.API, c Config) *Buffer {
	c.MessageBytesMax = cmp.Or(c.MessageBytesMax, sqsclient.BytesMaxDefault)
	c.Visibility = cmp.Or(c.Visibility, VisibilityDefault)
	return &Buffer{Config: c, queue: QueueName(c.Prefix), client: sqsclient.New(api, sqsclient.Config{
		Clock: c.Clock, Timeout: cmp.Or(c.RequestTimeout, RequestTimeoutDefault), BytesMax: c.MessageBytesMax,
		PollGrace: cmp.Or(c.PollGrace, PollGraceDefault), Explain: explain, Observer: c.Observer,
	})}
}

func explain(_ string, err error) error {
	if sqsclient.IsMissing(err) {
		return fmt.Errorf("%w; `kinesin aws setup` makes it", err)
	}
	return err
}

// BodyBytesMax implements buffer.Buffer.
func (b *Buffer) BodyBytesMax() int { return b.MessageBytesMax }

// Depth implements buffer.Buffer.
func (b *Buffer) Depth(ctx context.Context) (visible, hidden int64, err error) {
	if err := b.usable(); err != nil {
		return 0, 0, err
	}
	got, err := b.client.Attributes(ctx, b.queue, types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesNotVisible, types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	if err != nil {
		return 0, 0, err
	}
	count := func(name types.QueueAttributeName) int64 {
		n, parseErr := strconv.ParseInt(got[string(name)], 10, 64)
		err = errors.Join(err, parseErr)
		return n
	}
	visible = count(types.QueueAttributeNameApproximateNumberOfMessages)
	hidden = count(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible) + count(types.QueueAttributeNameApproximateNumberOfMessagesDelayed)
	return visible, hidden, err
}

// Close implements buffer.Buffer.
func (b *Buffer) Close() error {
	b.closed.Store(true)
	b.client.Close()
	return nil
}

// usable returns why a call cannot be served.
func (b *Buffer) usable() error {
	if b.closed.Load() {
		return buffer.ErrClosed
	}
	return nil
}

// Send implements buffer.Buffer.
func (b *Buffer) Send(ctx context.Context, messages []buffer.Outgoing) []error {
	results := make([]error, len(messages))
	good := make([]sqsclient.Message, 0, len(messages))
	var at []int
	for i, m := range messages {
		if results[i] = cmp.Or(b.usable(), b.check(&m)); results[i] == nil {
			good, at = append(good, sqsclient.Message{Body: m.Body, DelaySeconds: sqsclient.SecondsUp(m.Delay)}), append(at, i)
		}
	}
	for n, err := range b.client.Send(ctx, b.queue, good) {
		results[at[n]] = err
	}
	return results
}

func (b *Buffer) check(m *buffer.Outgoing) error {
	switch {
	case len(m.Body) > b.MessageBytesMax:
		return fmt.Errorf("%w: %d bytes, at most %d are allowed", buffer.ErrTooLarge, len(m.Body), b.MessageBytesMax)
	case m.Delay < 0 || m.Delay > buffer.DelayMax:
		return fmt.Errorf("delay of %v: want 0s to %v", m.Delay, buffer.DelayMax)
	}
	return nil
}

// Receive implements buffer.Buffer. It polls once: it returns at once when there are messages, and after 20 s
// otherwise.
func (b *Buffer) Receive(ctx context.Context, limit int) ([]buffer.Message, error) {
	if limit < 1 {
		return nil, fmt.Errorf("receive %d messages: want 1 to %d", limit, buffer.BatchMax)
	}
	if err := b.usable(); err != nil {
		return nil, err
	}
	received, err := b.client.Receive(ctx, b.queue, sqsclient.Poll{Max: limit, Visibility: b.Visibility})
	switch {
	case err == nil:
	case b.closed.Load():
		return nil, buffer.ErrClosed
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	default:
		return nil, err
	}
	messages := make([]buffer.Message, len(received))
	for i := range received {
		m := &received[i]
		messages[i] = buffer.Message{Body: aws.ToString(m.Body), Receives: sqsclient.Receives(m), Receipt: aws.ToString(m.ReceiptHandle)}
	}
	return messages, nil
}

// Delete implements buffer.Buffer.
func (b *Buffer) Delete(ctx context.Context, messages []buffer.Message) error {
	if err := b.usable(); err != nil {
		return err
	}
	receipts := make([]string, len(messages))
	for i := range messages {
		receipts[i] = messages[i].Receipt
	}
	return b.client.Delete(ctx, b.queue, receipts)
}

// Retry implements buffer.Buffer.
func (b *Buffer) Retry(ctx context.Context, messages []buffer.Message, after time.Duration) error {
	if after < 0 || after > buffer.RetryMax {
		return fmt.Errorf("retry after %v: want 0s to %v", after, buffer.RetryMax)
	}
	if err := b.usable(); err != nil {
		return err
	}
	hidden := make([]sqsclient.Hidden, len(messages))
	for i := range messages {
		hidden[i] = sqsclient.Hidden{Receipt: messages[i].Receipt, For: after}
	}
	return b.client.Hide(ctx, b.queue, hidden)
}
