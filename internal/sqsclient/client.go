// Package sqsclient is how this program calls Amazon SQS. It owns what all callers share: the addresses of
// queues, batches within SQS's limits, a time limit for every request, what an error means, retries of what
// SQS refuses for the moment, and an observer that is told of every request. It knows nothing of what is in a
// message.
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
	// BytesMaxDefault bounds a message, and all messages of a request together. AWS has raised its own limit
	// to BytesMaxMost; a queue may have a lower one.
	BytesMaxDefault = 256 << 10
	BytesMaxMost    = 1 << 20
	PollWait        = 20 * time.Second // the longest that a receive may wait at the service
	VisibilityMax   = 12 * time.Hour
)

// SendAPI is what a Client that only sends asks of the AWS SDK's client; *sqs.Client has it.
type SendAPI interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// ReceiveAPI is what a Client that also receives asks besides.
type ReceiveAPI interface {
	ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// API is all that a Client asks of the AWS SDK's client.
type API interface {
	SendAPI
	ReceiveAPI
}

// Config are the settings of a Client. Clock is required.
type Config struct {
	Clock clock.Clock
	// Timeout bounds every request but the wait of a poll: 10 s.
	Timeout time.Duration
	// BytesMax bounds all messages of one request; a larger message goes alone and is SQS's to refuse:
	// BytesMaxDefault.
	BytesMax int
	// Tries is how often an entry of a batch is sent that SQS refuses for the moment: 4. The SDK retries
	// requests that failed as a whole by itself.
	Tries int
	// RepeatSends has requests to send that failed as a whole tried again as well. Those to delete and to
	// hide always are, since nobody else would.
	RepeatSends bool
	// PollGrace is how long a poll goes on when its caller has gone: what it has just got would be hidden
	// from everybody for the visibility timeout if it were cut off.
	PollGrace time.Duration
	// Explain wraps an error in what its reader can do about it; nil: nothing.
	Explain func(queue string, err error) error
	// Observer is told what happens; nil: nobody is.
	Observer *Observer
}

// Client calls SQS. A queue is named by its name or its URL. All methods are safe for concurrent use.
type Client struct {
	Config

	api      API
	givenUp  atomic.Bool     // what fails is not tried again
	ctx      context.Context //nolint:containedctx // ends polls when the client is closed
	cancel   context.CancelFunc
	budget   budget
	recovery recovery

	mu   sync.Mutex // guards urls
	urls map[string]string
}

// New returns a Client. It makes no request by itself.
func New(api API, c Config) *Client {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.BytesMax = cmp.Or(c.BytesMax, BytesMaxDefault)
	c.Tries = cmp.Or(c.Tries, 4)
	c.Observer = c.Observer.orSilent()
	made := &Client{Config: c, api: api, urls: map[string]string{}}
	made.budget.tokens = retryTokensMax
	made.recovery.init()
	made.ctx, made.cancel = context.WithCancel(context.Background())
	return made
}

// NewSender returns a Client that only sends.
func NewSender(api SendAPI, c Config) *Client {
	return New(struct {
		SendAPI
		ReceiveAPI
	}{SendAPI: api}, c)
}

// GiveUp has nothing tried again from now on: what closes shall not wait out an outage.
func (c *Client) GiveUp() { c.givenUp.Store(true) }

// Close ends polls that are still on their way.
func (c *Client) Close() { c.cancel() }

// url finds the address of a queue.
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

// forgetURL has the address asked for again: a queue that was deleted and made again may have another.
func (c *Client) forgetURL(queue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.urls, queue)
}

// request makes one request of a queue. wait is how long SQS may take over it, beyond the time limit.
func request[Out any](ctx context.Context, c *Client, r *Request, wait time.Duration, call func(ctx context.Context, url *string) (*Out, error)) (*Out, error) {
	url, err := c.url(ctx, r.Queue)
	if err != nil {
		return nil, err
	}
	return observed(ctx, c, r, wait, func(ctx context.Context) (*Out, error) { return call(ctx, &url) })
}

// observed makes one request within its time and tells of it.
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
	if ctx.Err() == nil { // else its caller gave it up
		c.noteAnswer(err)
	}
	return out, err
}

func (c *Client) explain(r *Request, err error) error {
	if IsMissing(err) {
		c.forgetURL(r.Queue)
		err = fmt.Errorf("SQS queue %s %w", r.Queue, ErrMissing)
	} else {
		err = fmt.Errorf("%s of SQS queue %s: %w", r.Action, r.Queue, err)
	}
	if c.Explain != nil {
		err = c.Explain(r.Queue, err)
	}
	return err
}

// Attributes asks for attributes of a queue.
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
