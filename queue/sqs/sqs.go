// Package sqs is the queue driver over Amazon SQS: one SQS queue for each <lambda, priority>.
//
// It owns what lies between the seam and the service: the packing of several tasks into one SQS message, the
// batching of requests, and a small prefetch buffer from which the waiting receivers of this process are
// served by class, in order of due time, and never early. It calls SQS through internal/sqsclient. It never
// decides what becomes of a task: a message that is lost is sent again by the scheduler, one that comes twice
// is refused at the claim, so the driver may send, hand out and return a task's message as often as it takes.
//
// For lambdas in deliver mode it puts the user's payload on their queues; those are read by others.
//
// docs/adr/0010 says why tasks share messages and classes share a queue.
package sqs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// API is what the driver asks of the AWS SDK's client; *sqs.Client has it.
type API interface {
	sqsclient.API
	SetQueueAttributes(ctx context.Context, in *sqs.SetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error)
	CreateQueue(ctx context.Context, in *sqs.CreateQueueInput, options ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error)
}

// InFlightMax is how many messages of one queue may be received and not yet deleted; beyond it
// SQS answers receives with nothing, or with OverLimit.
const InFlightMax = 120_000

// Defaults of Config.
const (
	MessageBytesMaxDefault = sqsclient.BytesMaxDefault
	PackTasksMaxDefault    = 16
	LingerDefault          = 5 * time.Millisecond
	AheadLingerDefault     = 40 * time.Millisecond
	DeliverLingerDefault   = 30 * time.Millisecond
	DeleteLingerDefault    = time.Second
	PollPauseDefault       = 10 * time.Millisecond
	HoldDefault            = 250 * time.Millisecond
	PollVisibilityDefault  = 4 * time.Second
	VisibilityDefault      = 30 * time.Second
	PollersMaxDefault      = 4
	RequestTimeoutDefault  = 10 * time.Second
	CloseGraceDefault      = 200 * time.Millisecond
)

// Config are the settings of a Driver. Prefix, Codec, Lambda, Lambdas, Clock and Log are required. A duration
// of 0 means its default; where a negative one is allowed it means none.
type Config struct {
	// Prefix starts the names of all queues; see CheckPrefix.
	Prefix string
	// Codec writes tasks into messages.
	Codec Codec
	// Lambda finds a lambda by its reference, which is what tasks and queue.Name have of it; false when there
	// is none, as far as is known here.
	Lambda func(ref uint32) (task.Lambda, bool)
	// Lambdas are all that are known: the queues of a new one must not have the name of another's.
	Lambdas func() []task.Lambda
	// Registered reports whether a lambda's queues are somebody else's to make: Terraform's. nil: none are.
	Registered func(lambda string) bool
	Clock      clock.Clock
	Log        *slog.Logger
	// Observer is told what happens; nil is fine.
	Observer *sqsclient.Observer

	// MessageBytesMax is how large a message, and all messages of one request together, may be: 256 KiB.
	// Queues and regions that take 1 MiB may have it larger.
	MessageBytesMax int
	// PackTasksMax is how many tasks share a message at most: 16. 1 turns packing off.
	PackTasksMax int

	// Linger is how long a send waits for others to go with it, when another one came just before: 5 ms.
	// AheadLinger is the same for tasks that are not due for as long: 40 ms. DeliverLinger is that of
	// deliveries: 30 ms. DeleteLinger is that of deletes and of returned messages, for which nobody waits: 1
	// s. Negative: none.
	Linger, AheadLinger, DeliverLinger, DeleteLinger time.Duration
	// PollPause is how long the next poll waits after one that brought several tasks, and fewer than were
	// asked for: 10 ms. Negative: none.
	PollPause time.Duration
	// Hold is how long a due task that nobody here takes stays here before others may have it: 250 ms.
	Hold time.Duration
	// PollVisibility is after which time SQS hands out again what a poll received: 4 s, so that a task is
	// late by no more when the process of that poll is gone. Most messages are deleted well before.
	PollVisibility time.Duration
	// Visibility is for how long a message stays hidden that is in hand after half of that: 30 s, again and
	// again while the process lives and has it.
	Visibility time.Duration
	// PollersMax is how many receives of one queue run at once while it has plenty: 4.
	PollersMax int
	// RequestTimeout bounds every request but the wait of a poll: 10 s.
	RequestTimeout time.Duration
	// CloseGrace is how long Close waits for polls, since SQS may be answering them: 200 ms. Negative: not at
	// all.
	CloseGrace time.Duration
}

// withDefaults fills in what is not set; negative durations become zero.
func (c Config) withDefaults() Config {
	c.MessageBytesMax = cmp.Or(max(c.MessageBytesMax, 0), MessageBytesMaxDefault)
	c.PackTasksMax = cmp.Or(max(c.PackTasksMax, 0), PackTasksMaxDefault)
	c.PollersMax = cmp.Or(max(c.PollersMax, 0), PollersMaxDefault)
	for _, d := range []struct {
		value     *time.Duration
		otherwise time.Duration
	}{
		{&c.Linger, LingerDefault},
		{&c.AheadLinger, AheadLingerDefault},
		{&c.DeliverLinger, DeliverLingerDefault},
		{&c.DeleteLinger, DeleteLingerDefault},
		{&c.PollPause, PollPauseDefault},
		{&c.Hold, HoldDefault},
		{&c.PollVisibility, PollVisibilityDefault},
		{&c.Visibility, VisibilityDefault},
		{&c.RequestTimeout, RequestTimeoutDefault},
		{&c.CloseGrace, CloseGraceDefault},
	} {
		*d.value = max(cmp.Or(*d.value, d.otherwise), 0)
	}
	return c
}

// Driver implements queue.Driver, queue.Dropper, queue.Deliverer and queue.Provisioner.
type Driver struct {
	Config

	api      API
	client   *sqsclient.Client
	prefetch *prefetch

	ctx    context.Context //nolint:containedctx // that of the driver's own requests, which outlive the calls they serve
	cancel context.CancelFunc
	work   group // requests and timers on their way
	closed atomic.Bool
	open   context.Context //nolint:containedctx // ends with Close, and with it whatever waits
	end    context.CancelFunc

	mu    sync.Mutex // guards lanes
	lanes map[laneKey]*lane
}

var (
	_ queue.Driver      = (*Driver)(nil)
	_ queue.Dropper     = (*Driver)(nil)
	_ queue.Deliverer   = (*Driver)(nil)
	_ queue.Provisioner = (*Driver)(nil)
	_ API               = (*sqs.Client)(nil)
)

// New returns a driver. It asks nothing of SQS before it is used.
func New(api API, config Config) *Driver {
	config = config.withDefaults()
	d := &Driver{Config: config, api: api, prefetch: newPrefetch(), lanes: map[laneKey]*lane{}}
	d.client = sqsclient.New(api, sqsclient.Config{
		Clock: config.Clock, Timeout: config.RequestTimeout, BytesMax: config.MessageBytesMax, PollGrace: config.CloseGrace,
		Explain: d.explain, Observer: config.Observer,
	})
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.open, d.end = context.WithCancel(d.ctx)
	return d
}

// laneKey is what one SQS queue is known by at the seam, whatever the class.
type laneKey struct {
	lambda   uint32
	priority uint8
}

func keyOf(n queue.Name) laneKey { return laneKey{n.Lambda, n.Priority} }

// lane is one SQS queue with all that is on its way to and from it.
type lane struct {
	driver *Driver
	key    laneKey
	name   string // of the SQS queue
	mode   task.Mode

	sends   *batcher[*outgoing]
	deletes *batcher[string] // by receipt handle
	returns *batcher[sqsclient.Hidden]
	polls   polls
	depths  depths
}

// laneOf is lane for one use of a queue: what a consumer outside reads is not for Kinesin's tasks, and the
// other way round.
func (d *Driver) laneOf(key laneKey, use task.Mode) (*lane, error) {
	l, err := d.lane(key)
	if err == nil && l.mode != use {
		return nil, fmt.Errorf("%w: %s is of a lambda in mode %s", ErrNoQueue, l.name, l.mode)
	}
	return l, err
}

// lane finds the lane of a lambda's priority. An error says that there is no such queue, as far as is known
// here.
func (d *Driver) lane(key laneKey) (*lane, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, found := d.lanes[key]; found {
		return l, nil
	}
	name, mode, err := d.queueName(key)
	if err != nil {
		return nil, err
	}
	l := &lane{driver: d, key: key, name: name, mode: mode}
	share := d.PackTasksMax // deliveries share requests, not messages
	if mode == task.Deliver {
		share = 1
	}
	l.sends = newBatcher(d, l.sendAll, sqsclient.BatchMax*share, sendsInFlightMax)
	l.deletes = newBatcher(d, l.deleteReceived, sqsclient.BatchMax, deletesInFlightMax)
	l.returns = newBatcher(d, l.hide, sqsclient.BatchMax, deletesInFlightMax)
	l.polls.tasksPerMessage = 1
	d.forgetLanes()
	d.lanes[key] = l
	return l, nil
}

// forgetLanes drops the lanes of lambdas that are gone. What is on its way there goes on.
func (d *Driver) forgetLanes() {
	for key, l := range d.lanes {
		if _, found := d.Lambda(key.lambda); !found && !l.isWaitedFor() {
			delete(d.lanes, key)
		}
	}
}

// Room implements queue.Driver. SQS has no bound, and cannot tell when a queue became shorter.
func (d *Driver) Room(queue.Name) <-chan struct{} { return nil }

// Durable implements queue.Driver.
func (d *Driver) Durable() bool { return true }

// Drop implements queue.Dropper. What is held here is deleted. What is still at SQS, where the queue stays,
// comes to nothing when it is received: its reference is that of no lambda any more, also when one of the
// same name is made.
func (d *Driver) Drop(_ context.Context, lambda uint32) error {
	d.mu.Lock()
	for key := range d.lanes {
		if key.lambda == lambda {
			delete(d.lanes, key)
		}
	}
	d.mu.Unlock()
	for _, m := range d.prefetch.ofLambda(lambda) {
		m.lane.deleteLater(m)
	}
	return nil
}

// Close implements queue.Driver. What was received and not taken is made visible to others, deletes that were
// asked for are done, and polls are given up after a moment, since SQS may be answering them.
func (d *Driver) Close() error {
	if d.closed.Swap(true) {
		d.work.wait()
		return nil
	}
	d.end()
	d.client.GiveUp()
	d.prefetch.close()
	d.giveBack(d.prefetch.unclaimed(forever), 0)
	d.mu.Lock()
	lanes := slices.Collect(maps.Values(d.lanes))
	d.mu.Unlock()
	for _, l := range lanes {
		l.sends.flush(forever)
		l.deletes.flush(forever)
		l.returns.flush(forever)
	}
	d.work.wait()
	d.client.Close()
	d.cancel()
	return nil
}

// forever is later than every instant.
const forever = task.Instant(1<<63 - 1)
