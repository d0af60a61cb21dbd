package sqsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Retries of what SQS refused for the moment.
const (
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
	// retryTokensMax and retryTokensEvery bound the retries of the whole client, so that a service in trouble
	// gets no second load from here.
	retryTokensMax   = 200
	retryTokensEvery = 20 * time.Millisecond
)

// Message is one message to send.
type Message struct {
	Body         string
	DelaySeconds int32
	Attributes   map[string]string
}

const stringType = "String"

// Bytes is its size as SQS counts it.
func (m *Message) Bytes() int {
	bytes := len(m.Body)
	for name, value := range m.Attributes {
		bytes += AttributeBytes(name, value)
	}
	return bytes
}

// AttributeBytes is what an attribute adds to the size of a message.
func AttributeBytes(name, value string) int { return len(name) + len(stringType) + len(value) }

func (m *Message) entry(id *string) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{Id: id, MessageBody: &m.Body, DelaySeconds: m.DelaySeconds}
	for name, value := range m.Attributes {
		if e.MessageAttributes == nil {
			e.MessageAttributes = map[string]types.MessageAttributeValue{}
		}
		e.MessageAttributes[name] = types.MessageAttributeValue{DataType: aws.String(stringType), StringValue: &value}
	}
	return e
}

// Send sends messages in as few requests as SQS's limits allow. results[i] is nil when messages[i] is in the
// queue.
func (c *Client) Send(ctx context.Context, queue string, messages []Message) (results []error) {
	again := isRefusal
	if c.RepeatSends {
		again = IsPassing
	}
	for len(messages) > 0 {
		n, bytes := 0, 0
		for n < min(len(messages), BatchMax) && (n == 0 || bytes+messages[n].Bytes() <= c.BytesMax) {
			bytes += messages[n].Bytes()
			n++
		}
		batch := messages[:n]
		results = append(results, c.retry(ctx, n, again, func(at []int) []error { return c.sendOnce(ctx, queue, batch, at) })...)
		messages = messages[n:]
	}
	return results
}

func (c *Client) sendOnce(ctx context.Context, queue string, messages []Message, at []int) []error {
	r := Request{Queue: queue, Action: ActionSend, Entries: len(at)}
	entries := make([]types.SendMessageBatchRequestEntry, len(at))
	for k, i := range at {
		entries[k] = messages[i].entry(&entryIDs[k])
		r.Bytes += messages[i].Bytes()
	}
	out, err := request(ctx, c, &r, 0, func(ctx context.Context, url *string) (*sqs.SendMessageBatchOutput, error) {
		return c.api.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
	})
	if err != nil {
		return slices.Repeat([]error{err}, len(at))
	}
	results := slices.Repeat([]error{errNoAnswer}, len(at))
	for i := range out.Successful {
		if k, known := entryOf(out.Successful[i].Id, len(at)); known {
			results[k] = nil
		}
	}
	c.noteRefusals(&r, out.Failed, results)
	return results
}

// noteRefusals fills in what SQS refused of a batch.
func (c *Client) noteRefusals(r *Request, failed []types.BatchResultErrorEntry, results []error) {
	for i := range failed {
		c.Observer.Refused(r.Queue, r.Action, aws.ToString(failed[i].Code))
		if k, known := entryOf(failed[i].Id, len(results)); known {
			results[k] = entryError(&failed[i])
		}
	}
}

// Delete deletes received messages. After an error some may come again.
func (c *Client) Delete(ctx context.Context, queue string, receipts []string) error {
	return c.inBatches(ctx, Request{Queue: queue, Action: ActionDelete}, len(receipts), func(ctx context.Context, url *string, at []int) ([]types.BatchResultErrorEntry, error) {
		entries := make([]types.DeleteMessageBatchRequestEntry, len(at))
		for k, i := range at {
			entries[k] = types.DeleteMessageBatchRequestEntry{Id: &entryIDs[k], ReceiptHandle: &receipts[i]}
		}
		out, err := c.api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: entries})
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// Hidden is a received message, and for how long from now on nobody is to receive it: up to VisibilityMax, in
// whole seconds, rounded up.
type Hidden struct {
	Receipt string
	For     time.Duration
}

// Hide hides received messages for longer, or, with no time, not any longer. After an error some are visible
// when their present time is over.
func (c *Client) Hide(ctx context.Context, queue string, messages []Hidden) error {
	return c.inBatches(ctx, Request{Queue: queue, Action: ActionVisibility}, len(messages), func(ctx context.Context, url *string, at []int) ([]types.BatchResultErrorEntry, error) {
		entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(at))
		for k, i := range at {
			entries[k] = types.ChangeMessageVisibilityBatchRequestEntry{
				Id: &entryIDs[k], ReceiptHandle: &messages[i].Receipt, VisibilityTimeout: SecondsUp(min(max(messages[i].For, 0), VisibilityMax)),
			}
		}
		out, err := c.api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: entries})
		if err != nil {
			return nil, err
		}
		return out.Failed, nil
	})
}

// SecondsUp is a time in whole seconds, as SQS has it, rounded up.
func SecondsUp(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// inBatches makes requests about n received messages. once makes that for those at some places, and returns
// what SQS refused.
func (c *Client) inBatches(
	ctx context.Context, r Request, n int, once func(ctx context.Context, url *string, at []int) ([]types.BatchResultErrorEntry, error),
) error {
	var errs []error
	for from := 0; from < n; from += BatchMax {
		results := c.retry(ctx, min(n-from, BatchMax), IsPassing, func(at []int) []error {
			r, places := r, make([]int, len(at))
			for k := range at {
				places[k] = from + at[k]
			}
			r.Entries = len(at)
			failed, err := request(ctx, c, &r, 0, func(ctx context.Context, url *string) (*[]types.BatchResultErrorEntry, error) {
				failed, err := once(ctx, url, places)
				return &failed, err
			})
			results := slices.Repeat([]error{err}, len(at))
			if err == nil {
				c.noteRefusals(&r, *failed, results)
			}
			return results
		})
		if i := slices.IndexFunc(results, func(err error) bool { return err != nil }); i >= 0 {
			errs = append(errs, fmt.Errorf("of %d messages at least one: %w", len(results), results[i]))
		}
	}
	return errors.Join(errs...)
}

// retry has a batch of n entries tried, and again those with an error that may pass. once tries the entries
// at some places.
func (c *Client) retry(ctx context.Context, n int, mayPass func(error) bool, once func(at []int) []error) []error {
	results, inDoubt := make([]error, n), make([]bool, n)
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	for try := 1; ; try++ {
		var again []int
		for k, err := range once(at) {
			i := at[k]
			if results[i] = err; err != nil && inDoubt[i] {
				results[i] = fmt.Errorf("%w; %w", err, errInDoubt)
			}
			inDoubt[i] = inDoubt[i] || IsUnknown(err)
			if mayPass(err) {
				again = append(again, i)
			}
		}
		if len(again) == 0 || try == c.Tries || !c.backOff(ctx, try) {
			return results
		}
		at = again
	}
}

// backOff waits after the try with that number, with full jitter. It is false when there is to be no other.
func (c *Client) backOff(ctx context.Context, try int) bool {
	if c.givenUp.Load() || !c.budget.take(clock.Steady(c.Clock)) {
		return false
	}
	most := min(backoffMin<<min(try, 10), backoffMax)
	return clock.Sleep(ctx, c.Clock, time.Duration(c.Clock.Uint64()%uint64(most))) == nil
}

// budget is a bucket of retries.
type budget struct {
	mu     sync.Mutex
	tokens int
	filled task.Instant
}

// take reports whether one more retry is allowed.
func (b *budget) take(now task.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if gained := int(now.Sub(b.filled) / retryTokensEvery); gained != 0 || b.filled.IsZero() { // the clock may be set back
		b.tokens = min(retryTokensMax, b.tokens+min(max(gained, 0), retryTokensMax))
		b.filled = now
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}

// entryIDs are the ids of entries in a batch, by position.
var entryIDs = [BatchMax]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// entryOf is the position that an id of a batch's answer stands for; false for one that was never asked for.
func entryOf(id *string, entries int) (int, bool) {
	i := slices.Index(entryIDs[:entries], aws.ToString(id))
	return i, i >= 0
}
