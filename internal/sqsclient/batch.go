package sqsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// Message is a message to send.
type Message struct {
	Body         string
	DelaySeconds int32
	Attributes   map[string]string
	// Typed are attributes as they were received.
	Typed map[string]types.MessageAttributeValue
	// GroupID and DeduplicationID are SQS's; a FIFO queue needs both. Empty: none.
	GroupID, DeduplicationID string
}

const stringType = "String"

// Bytes returns the size of the message as SQS counts it.
func (m *Message) Bytes() int {
	bytes := len(m.Body)
	for name, value := range m.Attributes {
		bytes += AttributeBytes(name, value)
	}
	for name, value := range m.Typed {
		bytes += len(name) + len(aws.ToString(value.DataType)) + len(aws.ToString(value.StringValue)) + len(value.BinaryValue)
	}
	return bytes
}

// AttributeBytes returns what an attribute adds to the size of a message.
func AttributeBytes(name, value string) int { return len(name) + len(stringType) + len(value) }

func (m *Message) entry(id *string) types.SendMessageBatchRequestEntry {
	e := types.SendMessageBatchRequestEntry{Id: id, MessageBody: &m.Body, DelaySeconds: m.DelaySeconds, MessageAttributes: m.Typed}
	if m.GroupID != "" {
		e.MessageGroupId = &m.GroupID
	}
	if m.DeduplicationID != "" {
		e.MessageDeduplicationId = &m.DeduplicationID
	}
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
	isRepeatable := isTemporaryRefusal
	if c.RepeatSends {
		isRepeatable = IsTemporary
	}
	for len(messages) > 0 {
		n, bytes := 0, 0
		for n < min(len(messages), BatchMax) && (n == 0 || bytes+messages[n].Bytes() <= c.BytesMax) {
			bytes += messages[n].Bytes()
			n++
		}
		batch := messages[:n]
		results = append(results, c.retry(ctx, n, isRepeatable, func(at []int) []error { return c.sendOnce(ctx, queue, batch, at) })...)
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

// noteRefusals puts the errors of refused entries into results.
func (c *Client) noteRefusals(r *Request, failed []types.BatchResultErrorEntry, results []error) {
	for i := range failed {
		c.Observer.Refused(r.Queue, r.Action, aws.ToString(failed[i].Code))
		if k, known := entryOf(failed[i].Id, len(results)); known {
			results[k] = entryError(&failed[i])
		}
	}
}

// Delete deletes received messages. After an error some of them may be received again.
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

// Hidden is a received message and how long it is hidden from now on: up to VisibilityMax, in whole seconds,
// rounded up.
type Hidden struct {
	Receipt string
	For     time.Duration
}

// Hide changes how long received messages are hidden; 0 makes them visible at once. After an error some of
// them become visible when their present timeout ends.
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

// inBatches makes requests about n received messages. once makes the request about the messages at some
// indexes, and returns the entries that SQS refused.
func (c *Client) inBatches(
	ctx context.Context, r Request, n int, once func(ctx context.Context, url *string, at []int) ([]types.BatchResultErrorEntry, error),
) error {
	var errs []error
	for from := 0; from < n; from += BatchMax {
		results := c.retry(ctx, min(n-from, BatchMax), IsTemporary, func(at []int) []error {
			r, indexes := r, make([]int, len(at))
			for k := range at {
				indexes[k] = from + at[k]
			}
			r.Entries = len(at)
			failed, err := request(ctx, c, &r, 0, func(ctx context.Context, url *string) (*[]types.BatchResultErrorEntry, error) {
				failed, err := once(ctx, url, indexes)
				return &failed, err
			})
			results := slices.Repeat([]error{err}, len(at))
			if err == nil {
				c.noteRefusals(&r, *failed, results)
			}
			return results
		})
		if i := slices.IndexFunc(results, func(err error) bool { return err != nil }); i >= 0 {
			errs = append(errs, fmt.Errorf("at least one of %d messages: %w", len(results), results[i]))
		}
	}
	return errors.Join(errs...)
}

// entryIDs are the ids of the entries of a batch, by index.
var entryIDs = [BatchMax]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// entryOf returns the index of an entry; false when a batch of so many entries has no such id.
func entryOf(id *string, entries int) (int, bool) {
	i := slices.Index(entryIDs[:entries], aws.ToString(id))
	return i, i >= 0
}
