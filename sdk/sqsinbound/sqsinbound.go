// Package sqsinbound schedules tasks without a server: it puts them into the inbound queue of an
// installation on AWS, and a server moves them to its store. Scheduling then depends on SQS alone, and a
// burst does not load the servers. No other package of the SDK links the AWS SDK.
//
//	queue := sqs.NewFromConfig(cfg) // of the AWS SDK
//	client, err := sqsinbound.New(queue, "prod", os.Getenv("KINESIN_INBOUND_KEY"))
//	defer client.Close(ctx)
//
//	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(time.Hour))
//
// A Client is an sdk.Scheduler, so typed lambdas take it in place of an sdk.Client. It refuses what every
// server would refuse. The server sets aside the rest (of a lambda that does not exist, with a payload
// above the server's limit); `kinesin inbound rejected list` shows it. Tasks with a key are refused, since
// only the store knows whether a key is taken: schedule them through an sdk.Client.
//
// The package owns ids, packing, batches and retries. Its goroutines end when there is nothing to send.
package sqsinbound

import (
	"cmp"
	"context"
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
	MessageBytesMaxDefault = sqsclient.BytesMaxDefault

	sendsMax = 8 // requests in flight; tasks that come meanwhile share messages
	triesMax = 9
)

// Why a task was not accepted. Package sdk has the other sentinels: ErrInvalid, ErrTooLarge, ErrUnsupported
// (a key), and ErrUnavailable, after which the task may have been accepted.
var (
	// ErrClosed refuses tasks after Close.
	ErrClosed = errors.New("the client is closed")
	// ErrNotSent says that a task was never sent: it waited in memory until its caller left.
	ErrNotSent = gather.ErrNotSent
)

// API has the calls of the AWS SDK that a Client needs; *sqs.Client has them.
type API interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Client puts tasks into the inbound queue. It is safe for concurrent use. One for each process is enough:
// concurrent calls share messages and requests.
type Client struct {
	config
	sealer *task.InboundSealer
	sender *gather.Gatherer[*kinesinv1.BufferedTask]
	client *sqsclient.Client
	queue  string // URL or name
}

var _ sdk.Scheduler = (*Client)(nil)

type config struct {
	clock           clock.Clock
	linger          time.Duration
	sendTimeout     time.Duration
	pendingMax      int
	pendingBytesMax int
	messageBytesMax int
	codec           sdk.PayloadCodec
}

// Option changes how a client sends.
type Option func(*config)

// WithLinger sets how long a task waits for others to share its message while few requests are in flight:
// LingerDefault otherwise; 0 for not at all. Under load tasks share messages in any case.
func WithLinger(d time.Duration) Option { return func(c *config) { c.linger = max(d, 0) } }

// WithSendTimeout bounds all tries to send a message: SendTimeoutDefault otherwise. The context of a call
// bounds how long its caller waits.
func WithSendTimeout(d time.Duration) Option { return func(c *config) { c.sendTimeout = d } }

// WithPending bounds the tasks that wait in memory, and their bytes: PendingMaxDefault and
// PendingBytesMaxDefault otherwise. Calls beyond that block until there is room.
func WithPending(tasks, bytes int) Option {
	return func(c *config) { c.pendingMax, c.pendingBytesMax = tasks, bytes }
}

// WithMessageBytesMax bounds a message, and all messages of a request together: MessageBytesMaxDefault
// otherwise; up to 1 MiB if the queue takes that. In a message a task is up to a third larger than its
// payload.
func WithMessageBytesMax(n int) Option { return func(c *config) { c.messageBytesMax = n } }

// WithPayloadCodec encodes the payloads of all tasks: see sdk.WithPayloadCodec.
func WithPayloadCodec(codec sdk.PayloadCodec) Option { return func(c *config) { c.codec = codec } }

// New returns a client. queueURLOrPrefix is the URL of the inbound queue, or the AWS prefix of the
// installation (the queue is then PREFIX-inbound). key is the secret that `kinesin inbound key` prints; a
// program may get it as KINESIN_INBOUND_KEY. New makes no request. Its errors are sdk.ErrInvalid.
func New(queue API, queueURLOrPrefix, key string, opts ...Option) (*Client, error) {
	sealer, err := task.ParseInboundKey(key)
	if err != nil {
		return nil, fmt.Errorf("%w inbound key of %d characters: want what `kinesin inbound key` prints", sdk.ErrInvalid, len(key))
	}
	c := &Client{sealer: sealer, config: config{linger: LingerDefault}}
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
	c.sender = gather.New(gather.Config[*kinesinv1.BufferedTask]{
		Clock: c.clock, Send: c.send, Bytes: envelope.Bytes,
		ItemsMax: sqsclient.BatchMax * envelope.TasksMax, BytesMax: c.messageBytesMax, SendsMax: sendsMax, Linger: c.linger,
		PendingMax: c.pendingMax, PendingBytesMax: c.pendingBytesMax,
	})
	return c, nil
}

const prefixMax = 20

func (c *config) withDefaults() {
	c.clock = cmp.Or(c.clock, clock.Real())
	c.sendTimeout = cmp.Or(max(c.sendTimeout, 0), SendTimeoutDefault)
	c.pendingMax = cmp.Or(max(c.pendingMax, 0), PendingMaxDefault)
	c.pendingBytesMax = cmp.Or(max(c.pendingBytesMax, 0), PendingBytesMaxDefault)
	c.messageBytesMax = cmp.Or(c.messageBytesMax, MessageBytesMaxDefault)
}

// Close refuses new tasks and returns when all pending ones were sent, or with the cause of ctx when that
// ends first.
func (c *Client) Close(ctx context.Context) error { return c.sender.Close(ctx) }

// Schedule puts a task into the queue. Without an error the task is durable there. With ErrUnavailable the
// task may be in the queue; the result has its id, so that Get can tell later.
func (c *Client) Schedule(ctx context.Context, item sdk.Item) (sdk.Result, error) {
	results, _ := c.ScheduleMany(ctx, []sdk.Item{item})
	return results[0], results[0].Err
}

// ScheduleMany puts any number of tasks into the queue and returns a result for each, in order. The error
// is nil when all are durable; otherwise it says how many are not and wraps the first error.
func (c *Client) ScheduleMany(ctx context.Context, items []sdk.Item) ([]sdk.Result, error) {
	results := make([]sdk.Result, len(items))
	tasks, at := make([]*kinesinv1.BufferedTask, 0, len(items)), make([]int, 0, len(items))
	for i := range items {
		t, due, err := c.accept(ctx, &items[i])
		if err != nil {
			results[i].Err = fmt.Errorf("schedule: %w", err)
			continue
		}
		results[i] = sdk.Result{ID: sdk.ID(t.Id), Due: due.Time()}
		tasks, at = append(tasks, t), append(at, i)
	}
	for n, err := range c.sender.Do(ctx, tasks) {
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

// explained wraps an error in the sentinel of this package or of sdk.
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

// send packs tasks into messages, sends them, and returns a result for each task. A message that is sent
// twice has the same ids, so it makes no second task.
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
		if sqsclient.IsTemporary(err) || sqsclient.IsUnknown(err) {
			err = fmt.Errorf("%w after up to %d tries; it may be in the queue: %w", sdk.ErrUnavailable, triesMax, err)
		}
		results = append(results, slices.Repeat([]error{err}, packed[i].Tasks)...)
	}
	return results
}

func explain(_ string, err error) error {
	if sqsclient.IsMissing(err) {
		return fmt.Errorf("%w: want the inbound queue of an installation, which `kinesin aws setup` makes", err)
	}
	return err
}

// invalid returns an error with REASON_INVALID.
func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}
