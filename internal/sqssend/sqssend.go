// Package sqssend sends messages to one SQS queue in as few requests as SQS's limits allow, with an outcome
// for each message. It is what the server and sdk/sqsinbound share of SQS, and retries nothing by itself.
package sqssend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// Limits of one request.
const (
	BatchMax = 10
	// BytesMaxDefault bounds a message, and all messages of a request together. AWS has raised its own limit to
	// BytesMaxMost; a queue may have a lower one.
	BytesMaxDefault = 256 << 10
	BytesMaxMost    = 1 << 20
)

// API is what is asked of the AWS SDK's client; *sqs.Client has it.
type API interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

// Message is one message to send.
type Message struct {
	Body         string
	DelaySeconds int32
}

// Error is SQS's refusal of one message of a batch.
type Error struct {
	Code        string
	Text        string
	SenderFault bool // to send it again is of no use
}

func (e *Error) Error() string { return fmt.Sprintf("SQS refused the message: %s: %s", e.Code, e.Text) }

// errNoAnswer says that SQS did not say what became of a message.
var errNoAnswer = errors.New("SQS did not say what became of the message")

// Send sends messages. results[i] is nil when messages[i] is in the queue. bytesMax bounds all bodies of a request; a
// larger one goes alone and is SQS's to refuse.
func Send(ctx context.Context, api API, url string, messages []Message, bytesMax int) []error {
	results := make([]error, 0, len(messages))
	for len(messages) > 0 {
		n := fitting(messages, bytesMax)
		results = append(results, send(ctx, api, url, messages[:n])...)
		messages = messages[n:]
	}
	return results
}

// fitting is how many of the messages, at least one, go in the next request.
func fitting(messages []Message, bytesMax int) int {
	size := 0
	for n := range min(len(messages), BatchMax) {
		size += len(messages[n].Body)
		if n > 0 && size > bytesMax {
			return n
		}
	}
	return min(len(messages), BatchMax)
}

func send(ctx context.Context, api API, url string, messages []Message) []error {
	entries := make([]types.SendMessageBatchRequestEntry, len(messages))
	for i := range messages {
		entries[i] = types.SendMessageBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), MessageBody: &messages[i].Body, DelaySeconds: messages[i].DelaySeconds,
		}
	}
	out, err := api.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: &url, Entries: entries})
	if err != nil {
		return slices.Repeat([]error{err}, len(messages))
	}
	results := slices.Repeat([]error{errNoAnswer}, len(messages))
	for _, e := range out.Successful {
		if i, known := place(e.Id, len(results)); known {
			results[i] = nil
		}
	}
	for _, e := range out.Failed {
		if i, known := place(e.Id, len(results)); known {
			results[i] = &Error{Code: aws.ToString(e.Code), Text: aws.ToString(e.Message), SenderFault: e.SenderFault}
		}
	}
	return results
}

// place is the position that an id of an answer stands for.
func place(id *string, n int) (int, bool) {
	i, err := strconv.Atoi(aws.ToString(id))
	return i, err == nil && i >= 0 && i < n
}

// IsPassing reports whether an error of Send may go away by itself: sending again may help, and the message may
// be there already.
func IsPassing(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if entry, found := errors.AsType[*Error](err); found {
		return !entry.SenderFault
	}
	refusal, found := errors.AsType[smithy.APIError](err)
	return !found || refusal.ErrorFault() == smithy.FaultServer || slices.Contains(throttled, refusal.ErrorCode())
}

var throttled = []string{
	"RequestThrottled", "Throttling", "ThrottlingException", "KmsThrottled", "KMS.ThrottlingException", "TooManyRequestsException",
}

// IsMissing reports whether an error says that there is no such queue.
func IsMissing(err error) bool {
	if _, found := errors.AsType[*types.QueueDoesNotExist](err); found {
		return true
	}
	refusal, found := errors.AsType[smithy.APIError](err)
	return found && refusal.ErrorCode() == "AWS.SimpleQueueService.NonExistentQueue"
}
