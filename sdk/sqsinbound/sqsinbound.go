// Package sqsinbound schedules tasks without calling a server: it sends them to the inbound queue of an
// installation on AWS, from which a server takes them into its store. Scheduling then depends on SQS alone,
// and bursts do not reach the servers. It is the only package of the SDK that links the AWS SDK.
//
//	queue := sqs.NewFromConfig(cfg) // of the AWS SDK
//	client, err := sqsinbound.New(queue, "prod", os.Getenv("KINESIN_INBOUND_KEY"))
//	defer client.Close(ctx)
//
//	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(time.Hour))
//
// A Client is an sdk.Scheduler, so typed lambdas accept it in place of an sdk.Client. It refuses what every
// server would refuse. What only a server can know (a lambda that does not exist, a payload above the
// server's limit) the server sets aside: `kinesin inbound rejected list` shows it. Tasks with a key are
// refused, because only the store knows whether a key is taken: schedule them with an sdk.Client.
package sqsinbound

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// Defaults of options, and bounds.
const (
	LingerDefault          = 5 * time.Millisecond
	SendTimeoutDefault     = 10 * time.Second
	PendingMaxDefault      = 10_000
	PendingBytesMaxDefault = 32 << 20
	MessageBytesMaxDefault = 256 << 10

	sendsMax = 8 // requests in flight; tasks that come meanwhile are packed together
	triesMax = 9
)

// Refusals besides those of package sdk: ErrInvalid, ErrTooLarge, ErrUnsupported (a key) and ErrUnavailable
// (the task may be in the queue).
var (
	// ErrClosed refuses tasks after Close.
	ErrClosed = errors.New("the client is closed")
	// ErrNotSent means that the caller's context ended while the task waited in memory: it was never sent.
	ErrNotSent = gather.ErrNotSent
)

// API is the part of the AWS SDK's client that is used; *sqs.Client implements it.
type API interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Client sends tasks to the inbound queue. It is safe for concurrent use; use one per process, since
// concurrent calls share messages and requests.
type Client struct {
	config
	sealer *task.InboundSealer
	front  *gather.Gatherer[*kinesinv1.BufferedTask]
	client *sqsclient.Client
	queue  string // its URL or its name
}

var _ sdk.Scheduler = (*Client)(nil)

type config struct {
	clock           clock.Clock
	linger          time.Duration
	sendTimeout     time.Duration
	pendingMax      int
	pendingBytesMax int
	messageBytesMax int
}

// Option changes how a client sends.
type Option func(*config)

// WithLinger sets how long a task waits for others to share its message while few are in flight. The default
// is LingerDefault; 0 means not at all. Under load tasks share messages without waiting.
func WithLinger(d time.Duration) Option { return func(c *config) { c.linger = max(d, 0) } }

// WithSendTimeout bounds all tries of sending a message; the default is SendTimeoutDefault. The context of a
// call bounds how long its caller waits.
func WithSendTimeout(d time.Duration) Option { return func(c *config) { c.sendTimeout = d } }

// WithPending bounds the number and the bytes of tasks that wait in memory; calls above that block. The
// defaults are PendingMaxDefault and PendingBytesMaxDefault.
func WithPending(tasks, bytes int) Option {
	return func(c *config) { c.pendingMax, c.pendingBytesMax = tasks, bytes }
}

// WithMessageBytesMax bounds the bytes of a message, and of all messages of a request together. The default
// is MessageBytesMaxDefault; 1 MiB is possible if the queue allows that. In a message a task is up to a third
// larger than its payload.
func WithMessageBytesMax(n int) Option { return func(c *config) { c.messageBytesMax = n } }

// New returns a client of the queue with a URL, or of the queue PREFIX-inbound of the installation with that
// AWS prefix. key is the secret that `kinesin inbound key` prints; give it to programs as
// KINESIN_INBOUND_KEY, for example. New makes no request. Its errors are sdk.ErrInvalid.
func New(queue API, queueURLOrPrefix, key string, opts ...Option) (*Client, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(key)
	if err != nil || len(raw) != task.TokenKeyBytes {
		return nil, fmt.Errorf("%w inbound key of %d characters: want what `kinesin inbound key` prints", sdk.ErrInvalid, len(key))
	}
	c := &Client{sealer: task.NewInboundSealer(raw), config: config{linger: LingerDefault}}
	for _, o := range opts {
		o(&c.config)
	}
	c.withDefaults()
	if n := c.messageBytesMax; n < 1<<10 || n > sqsclient.BytesMaxMost {
		return nil, fmt.Errorf("%w message limit of %d bytes: want %d to %d", sdk.ErrInvalid, n, 1<<10, sqsclient.BytesMaxMost)
	}
	switch {
	case strings.Contains(queueURLOrPrefix, "://"):
		c.queue = queueURLOrPrefix
	case task.CheckName("prefix", queueURLOrPrefix) == nil && len(queueURLOrPrefix) <= prefixMax:
		c.queue = queueURLOrPrefix + "-inbound"
	default:
		return nil, fmt.Errorf("%w queue %q: want the URL of the inbound queue, or the AWS prefix of the installation: 1 to %d characters of "+
			"a-z, A-Z, 0-9, '_' and '-'", sdk.ErrInvalid, queueURLOrPrefix, prefixMax)
	}
	c.client = sqsclient.NewSender(queue, sqsclient.Config{
		Clock: c.clock, Timeout: c.sendTimeout, BytesMax: c.messageBytesMax, Tries: triesMax, RepeatSends: true, Explain: explain,
	})
	c.front = gather.New(gather.Config[*kinesinv1.BufferedTask]{
		Clock: c.clock, Send: c.send, Bytes: envelope.Bytes,
		ItemsMax: sqsclient.BatchMax * envelope.TasksMax, BytesMax: c.messageBytesMax, SendsMax: sendsMax, Linger: c.linger,
		PendingMax: c.pendingMax, PendingBytesMax: c.pendingBytesMax,
	})
	return c, nil
}

const prefixMax = 20

func (c *config) withDefaults() {
	if c.clock == nil {
		c.clock = clock.Real()
	}
	c.sendTimeout = cmp.Or(max(c.sendTimeout, 0), SendTimeoutDefault)
	c.pendingMax = cmp.Or(max(c.pendingMax, 0), PendingMaxDefault)
	c.pendingBytesMax = cmp.Or(max(c.pendingBytesMax, 0), PendingBytesMaxDefault)
	c.messageBytesMax = cmp.Or(c.messageBytesMax, MessageBytesMaxDefault)
}

// Close refuses new tasks and returns when all waiting ones were sent, or the cause when ctx ends first.
func (c *Client) Close(ctx context.Context) error { return c.front.Close(ctx) }

// Schedule sends one task. When it returns without an error the task is durable. With ErrUnavailable the task
// may be in the queue: the result has its id, for sdk.Client.Get.
func (c *Client) Schedule(ctx context.Context, item sdk.Item) (sdk.Result, error) {
	results, _ := c.ScheduleMany(ctx, []sdk.Item{item})
	return results[0], results[0].Err
}

// ScheduleMany sends any number of tasks and returns a result for each, in order. The error is nil when all
// are durable. Otherwise it says how many are not and wraps the first error.
func (c *Client) ScheduleMany(ctx context.Context, items []sdk.Item) ([]sdk.Result, error) {
	results := make([]sdk.Result, len(items))
	tasks, at := make([]*kinesinv1.BufferedTask, 0, len(items)), make([]int, 0, len(items))
	for i := range items {
		t, due, err := c.admit(&items[i])
		if err != nil {
			results[i].Err = fmt.Errorf("schedule: %w", err)
			continue
		}
		results[i] = sdk.Result{ID: sdk.ID(t.Id), Due: due.Time()}
		tasks, at = append(tasks, t), append(at, i)
	}
	for n, err := range c.front.Do(ctx, tasks) {
		if err == nil {
			continue
		}
		r := &results[at[n]]
		if err = explained(err); !errors.Is(err, sdk.ErrUnavailable) {
			*r = sdk.Result{}
		}
		r.Err = fmt.Errorf("schedule: %w", err)
	}
	return results, summary(results)
}

// explained wraps an error of the gatherer in the sentinel for callers.
func explained(err error) error {
	switch {
	case errors.Is(err, gather.ErrClosed):
		return ErrClosed
	case errors.Is(err, gather.ErrUnderWay):
		return fmt.Errorf("%w: %w", sdk.ErrUnavailable, err)
	}
	return err
}

func summary(results []sdk.Result) error {
	failed, first := 0, 0
	for i := range results {
		if results[i].Err != nil {
			if failed == 0 {
				first = i
			}
			failed++
		}
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d tasks were not scheduled; the first is item %d: %w", failed, len(results), first, results[first].Err)
}

// send packs tasks into messages, sends them and returns an error or nil for each task. A message that is
// sent again has the same ids, so that it makes no second tasks.
func (c *Client) send(ctx context.Context, tasks []*kinesinv1.BufferedTask) []error {
	ctx, cancel := clock.Within(ctx, c.clock, c.sendTimeout)
	defer cancel()
	packed, err := envelope.Pack(c.sealer, tasks, c.messageBytesMax)
	if err != nil {
		return slices.Repeat([]error{err}, len(tasks))
	}
	messages := make([]sqsclient.Message, len(packed))
	for i := range packed {
		messages[i].Body = packed[i].Body
	}
	results := make([]error, 0, len(tasks))
	for i, err := range c.client.Send(ctx, c.queue, messages) {
		if sqsclient.IsPassing(err) || sqsclient.IsUnknown(err) {
			err = fmt.Errorf("%w after up to %d tries; it may be in the queue: %w", sdk.ErrUnavailable, triesMax, err)
		}
		results = append(results, slices.Repeat([]error{err}, packed[i].Tasks)...)
	}
	return results
}

func explain(_ string, err error) error {
	if sqsclient.IsMissing(err) {
		return fmt.Errorf("%w: want the inbound queue of an installation, which `kinesin aws setup` creates", err)
	}
	return err
}

// invalid returns a refusal that says what is allowed.
func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}
