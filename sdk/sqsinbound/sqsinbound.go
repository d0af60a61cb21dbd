// Package sqsinbound schedules tasks without a server: it puts them straight into the inbound queue of an
// installation on AWS, from which a server takes them to its store. It is the one package of the SDK that
// links the AWS SDK. Scheduling then depends on SQS alone, and no server feels a burst.
//
//	queue := sqs.NewFromConfig(cfg) // of the AWS SDK
//	client, err := sqsinbound.New(queue, "prod", os.Getenv("KINESIN_INBOUND_KEY"))
//	defer client.Close(ctx)
//
//	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(time.Hour))
//
// A Client is an sdk.Scheduler, so typed lambdas take it where they take an sdk.Client. What a server would
// refuse at once is refused here as far as it can be known; the rest (a lambda that does not exist, a payload
// above the server's limit) is set aside by the server and shown by `kinesin inbound rejected list`. Tasks
// with a key are refused: only the store can say whether a key is taken, so they go through an sdk.Client.
//
// The package owns ids, packing, batches and retries. Its goroutines live while there is something to send.
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
	MessageBytesMaxDefault = sqsclient.BytesMaxDefault

	sendsMax = 8 // requests under way at a time; what comes meanwhile is packed
	triesMax = 9
)

// Why a task was not accepted, besides the sentinels of package sdk: ErrInvalid, ErrTooLarge, ErrUnsupported
// (a key), and ErrUnavailable, after which the task may have been accepted all the same.
var (
	// ErrClosed refuses tasks after Close.
	ErrClosed = errors.New("the client is closed")
	// ErrNotSent says that a task waited in memory until its caller went: it was never sent.
	ErrNotSent = gather.ErrNotSent
)

// API is what is asked of the AWS SDK's client; *sqs.Client has it.
type API interface {
	SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

// Client puts tasks into the inbound queue. It is safe for concurrent use; one per process is enough, since
// calls at the same time share messages and requests.
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

// WithLinger sets how long a task waits for others that share its message, while few are under way;
// LingerDefault otherwise, 0 for not at all. Under load tasks share messages in any case.
func WithLinger(d time.Duration) Option { return func(c *config) { c.linger = max(d, 0) } }

// WithSendTimeout bounds all tries of sending a message; SendTimeoutDefault otherwise. The context of a call
// bounds how long its caller waits.
func WithSendTimeout(d time.Duration) Option { return func(c *config) { c.sendTimeout = d } }

// WithPending bounds how many tasks wait in memory, and how many bytes they have; PendingMaxDefault and
// PendingBytesMaxDefault otherwise. Calls beyond that wait for room.
func WithPending(tasks, bytes int) Option {
	return func(c *config) { c.pendingMax, c.pendingBytesMax = tasks, bytes }
}

// WithMessageBytesMax sets how large a message may be, and all messages of a request together:
// MessageBytesMaxDefault otherwise, up to 1 MiB where the queue takes that. A task is up to a third larger in
// a message than its payload.
func WithMessageBytesMax(n int) Option { return func(c *config) { c.messageBytesMax = n } }

// WithClock sets the source of time and chance; it is for tests inside this module.
func WithClock(k clock.Clock) Option { return func(c *config) { c.clock = k } }

// New returns a client. queue is the inbound queue's URL, or the AWS prefix of the installation (the queue is
// then PREFIX-inbound). key is what `kinesin inbound key` prints: a secret that programs get, for example, as
// KINESIN_INBOUND_KEY. It makes no request before the first call. Its errors are sdk.ErrInvalid.
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

// Close refuses new tasks and returns when all that wait were sent, or with the cause of ctx when that ends
// first.
func (c *Client) Close(ctx context.Context) error { return c.front.Close(ctx) }

// Schedule puts one task into the queue. When it returns without an error the task is durable there. The
// result has the task's id also with ErrUnavailable, when it is not known whether the task is in the queue:
// Get knows later.
func (c *Client) Schedule(ctx context.Context, item sdk.Item) (sdk.Result, error) {
	results, _ := c.ScheduleMany(ctx, []sdk.Item{item})
	return results[0], results[0].Err
}

// ScheduleMany puts any number of tasks into the queue and answers for each, in order. The error is nil when
// all are durable; otherwise it tells how many are not, and wraps the first one's error.
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

// explained gives an error the sentinel by which callers know it.
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

// send packs tasks and sends them, with an outcome for each. A message that is sent again has the same ids in
// it, which cannot make second tasks.
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

// invalid is a refusal that says what is allowed.
func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}
