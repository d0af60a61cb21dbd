// Package sqsclient is the one client of Amazon SQS in this program. It owns what all callers share: the URLs
// of queues, batches within SQS's limits, a timeout for every request, the meaning of errors, retries, an
// observer that is told of every request, and the queues that setup creates and checks. It does not know what
// is in a message.
package sqsclient

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Limits of SQS.
const (
	BatchMax = 10 // entries of one request
	// BytesMaxDefault bounds a message, and all messages of one request together. AWS has raised its own
	// limit to BytesMaxMost; a queue may have a lower one.
	BytesMaxDefault = 256 << 10
	BytesMaxMost    = 1 << 20
	PollWait        = 20 * time.Second // the longest wait of a long poll
	VisibilityMax   = 12 * time.Hour
)

// SecondsUp returns a duration in whole seconds, as SQS takes it, rounded up.
func SecondsUp(d time.Duration) int32 { return int32((d + time.Second - 1) / time.Second) }

// SendAPI has the calls of the AWS SDK that a Client needs to send; *sqs.Client has them.
type SendAPI interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// ReceiveAPI has the calls that a Client needs to receive.
type ReceiveAPI interface {
	ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// DeadLetterAPI has the calls of the AWS SDK that a Client needs for dead-letter queues, besides those to
// receive and to send.
type DeadLetterAPI interface {
	StartMessageMoveTask(ctx context.Context, in *sqs.StartMessageMoveTaskInput, options ...func(*sqs.Options)) (*sqs.StartMessageMoveTaskOutput, error)
	ListMessageMoveTasks(ctx context.Context, in *sqs.ListMessageMoveTasksInput, options ...func(*sqs.Options)) (*sqs.ListMessageMoveTasksOutput, error)
	PurgeQueue(ctx context.Context, in *sqs.PurgeQueueInput, options ...func(*sqs.Options)) (*sqs.PurgeQueueOutput, error)
}

// API has all calls that a Client needs.
type API interface {
	SendAPI
	ReceiveAPI
	DeadLetterAPI
}

// Config are the settings of a Client. Clock is required.
type Config struct {
	Clock clock.Clock
	// Timeout bounds every request, in addition to the wait of a long poll: 10 s.
	Timeout time.Duration
	// BytesMax bounds all messages of one request: BytesMaxDefault. A larger message goes alone, and SQS
	// refuses it.
	BytesMax int
	// Tries is how often an entry of a batch is tried that SQS refuses for now: 4. The SDK retries requests
	// that fail as a whole by itself.
	Tries int
	// RepeatSends also repeats send requests that failed as a whole. Deletes and changes of visibility are
	// always repeated, since no caller repeats them.
	RepeatSends bool
	// PollGrace is how long a poll goes on after its caller left. If it were cancelled at once, messages that
	// SQS just handed out would stay hidden for their visibility timeout.
	PollGrace time.Duration
	// Explain adds to an error what its reader can do about it; nil adds nothing.
	Explain func(queue string, err error) error
	// Observer is told of every request; nil: nobody is.
	Observer *Observer
}

// Client calls SQS. Its methods take the name or the URL of a queue, and are safe for concurrent use.
type Client struct {
	Config

	api       API
	noRetries atomic.Bool
	ctx       context.Context //nolint:containedctx // ends polls when the client is closed
	cancel    context.CancelFunc
	budget    retryBudget
	outage    outage

	mu   sync.Mutex // guards urls
	urls map[string]string
}

// New returns a Client. It makes no request.
func New(api API, config Config) *Client {
	config.Timeout = cmp.Or(config.Timeout, 10*time.Second)
	config.BytesMax = cmp.Or(config.BytesMax, BytesMaxDefault)
	config.Tries = cmp.Or(config.Tries, 4)
	config.Observer = config.Observer.orSilent()
	c := &Client{Config: config, api: api, urls: map[string]string{}, budget: retryBudget{tokens: retryTokensMax}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.outage.begin(c.ctx)
	return c
}

// NewSender returns a Client that only sends.
func NewSender(api SendAPI, config Config) *Client {
	return New(struct {
		SendAPI
		ReceiveAPI
		DeadLetterAPI
	}{SendAPI: api}, config)
}

// StopRetries turns retries off, so that a process which is shutting down does not wait for an outage to end.
func (c *Client) StopRetries() { c.noRetries.Store(true) }

// Close ends the polls that are still in flight.
func (c *Client) Close() { c.cancel() }

// url returns the URL of a queue.
func (c *Client) url(ctx context.Context, queue string) (string, error) {
	if strings.Contains(queue, "://") {
		return queue, nil
	}
	c.mu.Lock()
	url := c.urls[queue]
	c.mu.Unlock()
	if url != "" {
		return url, nil
	}
	out, err := observed(ctx, c, &Request{Queue: queue, Action: ActionURL}, 0, func(ctx context.Context) (*sqs.GetQueueUrlOutput, error) {
		return c.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &queue})
	})
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.urls[queue] = aws.ToString(out.QueueUrl)
	return c.urls[queue], nil
}

// forgetURL makes the next request ask for the URL again: a queue that is created anew may have another one.
func (c *Client) forgetURL(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.urls, queue)
}

// request makes one request about a queue. wait is how long SQS may take in addition to the timeout.
func request[Out any](ctx context.Context, c *Client, r *Request, wait time.Duration, call func(ctx context.Context, url *string) (*Out, error)) (*Out, error) {
	url, err := c.url(ctx, r.Queue)
	if err != nil {
		return nil, err
	}
	return observed(ctx, c, r, wait, func(ctx context.Context) (*Out, error) { return call(ctx, &url) })
}

// observed makes one request within its timeout and reports it to the observer.
func observed[Out any](ctx context.Context, c *Client, r *Request, wait time.Duration, call func(context.Context) (*Out, error)) (*Out, error) {
	within, cancel := clock.Within(ctx, c.Clock, c.Timeout+wait)
	defer cancel()
	began := clock.Mono(c.Clock)
	out, err := call(within)
	if err != nil {
		err = c.explain(r, err)
	}
	r.Took, r.Err, r.Unknown = clock.Mono(c.Clock)-began, err, IsUnknown(err)
	c.Observer.Request(*r)
	if ctx.Err() == nil { // otherwise the caller cancelled it, which says nothing about SQS
		c.outage.note(c.ctx, err)
	}
	return out, err
}

func (c *Client) explain(r *Request, err error) error {
	if IsMissing(err) {
		c.forgetURL(r.Queue)
	}
	err = named(string(r.Action), r.Queue, err)
	if c.Explain != nil {
		err = c.Explain(r.Queue, err)
	}
	return err
}

// named adds the action and the queue to an error.
func named(action, queue string, err error) error {
	if IsMissing(err) {
		return fmt.Errorf("SQS queue %s %w", queue, ErrMissing)
	}
	return fmt.Errorf("%s of SQS queue %s: %w", action, queue, err)
}

// Attributes returns attributes of a queue.
func (c *Client) Attributes(ctx context.Context, queue string, names ...types.QueueAttributeName) (map[string]string, error) {
	r := Request{Queue: queue, Action: ActionAttributes}
	out, err := request(ctx, c, &r, 0, func(ctx context.Context, url *string) (*sqs.GetQueueAttributesOutput, error) {
		return c.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: names})
	})
	if err != nil {
		return nil, err
	}
	return out.Attributes, nil
}

// Action names a request in metrics.
type Action string

// The requests that are observed.
const (
	ActionSend       Action = "SendMessageBatch"
	ActionReceive    Action = "ReceiveMessage"
	ActionDelete     Action = "DeleteMessageBatch"
	ActionVisibility Action = "ChangeMessageVisibilityBatch"
	ActionURL        Action = "GetQueueUrl"
	ActionAttributes Action = "GetQueueAttributes"
	ActionStartMove  Action = "StartMessageMoveTask"
	ActionListMoves  Action = "ListMessageMoveTasks"
	ActionPurge      Action = "PurgeQueue"
)

// Request is a request that has ended.
type Request struct {
	Queue   string // name of the SQS queue
	Action  Action
	Entries int // messages in the request or in its answer
	Bytes   int // of bodies and attributes
	Took    time.Duration
	Err     error
	Unknown bool // it failed, and may have been carried out
}

// billedBytes is the payload that SQS bills as one request.
const billedBytes = 64 << 10

// Billed returns how many requests SQS bills: one for each 64 KiB of payload, and at least one.
func (r *Request) Billed() int { return max(1, (r.Bytes+billedBytes-1)/billedBytes) }

// Observer has hooks for metrics. A nil hook is not called. Hooks must be quick and safe for concurrent use.
type Observer struct {
	// Request is called after each request, which includes the SDK's own retries.
	Request func(Request)
	// Refused is called for each entry of a batch that SQS refused, with SQS's code.
	Refused func(queue string, action Action, code string)
	// Sent is called for each message of tasks that was sent, with the number of its tasks.
	Sent func(queue string, tasks int)
	// Discarded is called for each received message that holds nothing to hand out, with the queue driver's
	// reason.
	Discarded func(queue, reason string)
	// Returned is called when tasks that nobody here took are made visible to others; resent is how many of
	// them were sent again in a message of their own.
	Returned func(queue string, tasks, resent int)
}

// orSilent returns an observer whose hooks can all be called.
func (o *Observer) orSilent() *Observer {
	var all Observer
	if o != nil {
		all = *o
	}
	if all.Request == nil {
		all.Request = func(Request) {}
	}
	if all.Refused == nil {
		all.Refused = func(string, Action, string) {}
	}
	if all.Sent == nil {
		all.Sent = func(string, int) {}
	}
	if all.Discarded == nil {
		all.Discarded = func(string, string) {}
	}
	if all.Returned == nil {
		all.Returned = func(string, int, int) {}
	}
	return &all
}
