// Package sqs is the queue driver over Amazon SQS: one SQS queue for each <lambda, priority>.
//
// It packs several tasks into one SQS message, batches requests, and prefetches messages into a buffer from
// which the waiting receivers of this process are served: by class, in order of due time, and never early. It
// calls SQS through internal/sqsclient. It does not decide what happens to a task: the scheduler sends a lost
// message again, and a claim refuses one that comes twice. So the driver may send, hand out and return the
// message of a task any number of times.
//
// For lambdas in deliver mode it puts the user's payload on their queues, which others read.
//
// docs/adr/0010 says why tasks share messages and classes share a queue.
package sqs

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// requestTimeout bounds every request, in addition to the wait of a long poll.
const requestTimeout = 10 * time.Second

var (
	_ queue.Driver      = (*Driver)(nil)
	_ queue.Dropper     = (*Driver)(nil)
	_ queue.Deliverer   = (*Driver)(nil)
	_ queue.Provisioner = (*Driver)(nil)
	_ queue.Sealer      = (*Driver)(nil)
	_ queue.Weigher     = (*Driver)(nil)
	_ API               = (*sqs.Client)(nil)
)

// New returns a driver. It makes no request before it is used.
func New(api API, config Config) *Driver {
	config = config.withDefaults()
	secret := make([]byte, task.TokenKeyBytes)
	_, _ = rand.Read(secret) // never fails: crypto/rand
	d := &Driver{
		Config: config, api: api, sealer: task.NewSealer(secret).Ring().Messages(), prefetch: newPrefetch(config.AnswerMax), lanes: map[laneKey]*lane{},
	}
	d.client = sqsclient.New(api, sqsclient.Config{
		Clock: config.Clock, Timeout: requestTimeout, BytesMax: config.MessageBytesMax, PollGrace: config.CloseGrace,
		Explain: d.explain, Observer: config.Observer,
	})
	d.ctx, d.cancel = context.WithCancel(context.Background())
	d.open, d.end = context.WithCancel(d.ctx)
	return d
}

// UseSealer implements queue.Sealer. Without it the driver seals with a key of its own, so that it reads only
// what it sent.
func (d *Driver) UseSealer(s task.Seal) { d.sealer = s }

// UseWeights implements queue.Weigher.
func (d *Driver) UseWeights(of func(lambda uint32) []uint16) {
	d.prefetch.mu.Lock()
	defer d.prefetch.mu.Unlock()
	d.prefetch.turns.Use(of)
}

// Room implements queue.Driver. SQS queues have no bound, and SQS does not tell when one became shorter.
func (d *Driver) Room(queue.Name) <-chan struct{} { return nil }

// Durable implements queue.Driver.
func (d *Driver) Durable() bool { return true }

// Drop implements queue.Dropper. It deletes the messages that are prefetched here. Those still in SQS are
// discarded when they are received, because no lambda has their reference any more, not even a new one of the
// same name.
func (d *Driver) Drop(_ context.Context, lambda uint32) error {
	for _, m := range d.prefetch.removeLambda(lambda) {
		m.lane.delete(m)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, l := range d.lanes {
		if key.lambda == lambda {
			d.removeLane(l)
		}
	}
	return nil
}

// Close implements queue.Driver. It makes prefetched messages visible to others, finishes the pending
// deletes, and cancels polls after CloseGrace, since SQS may be answering them.
func (d *Driver) Close() error {
	d.life.Lock()
	wasClosed := d.closed.Swap(true)
	d.life.Unlock()
	if wasClosed {
		d.running.Wait()
		return nil
	}
	d.end()
	d.client.StopRetries()
	d.prefetch.close()
	d.giveBack(d.prefetch.removeWaiting(forever), 0)
	d.running.Wait()
	d.mu.Lock()
	lanes := slices.AppendSeq(d.removed, maps.Values(d.lanes))
	d.mu.Unlock()
	var closing sync.WaitGroup
	for _, l := range lanes {
		closing.Go(l.close)
	}
	closing.Wait()
	d.client.Close()
	d.cancel()
	return nil
}

// API has the calls of the AWS SDK that the driver needs; *sqs.Client has them.
type API interface {
	sqsclient.API
	sqsclient.SetupAPI
}

// Defaults of Config.
const (
	MessageBytesMaxDefault = sqsclient.BytesMaxDefault
	PackTasksMaxDefault    = 16
	LingerDefault          = 5 * time.Millisecond
	AnswerMaxDefault       = 50 * time.Millisecond
	DeliverLingerDefault   = 30 * time.Millisecond
	CloseGraceDefault      = 200 * time.Millisecond
)

// Config are the settings of a Driver. Prefix, Codec, Lambda, Lambdas, Clock and Log are required. A zero
// duration means its default; a negative one means none.
type Config struct {
	// Prefix starts the names of all queues: 1 to 20 characters of a-z, A-Z, 0-9, "_" and "-".
	Prefix string
	// Codec encodes tasks in messages.
	Codec Codec
	// Lambda returns the lambda of a reference, which tasks and queue.Name carry; false when this process
	// knows none.
	Lambda func(ref uint32) (task.Lambda, bool)
	// Lambdas returns all lambdas that this process knows, so that two do not get queues of the same name.
	Lambdas func() []task.Lambda
	// Registered reports whether Terraform makes the queues of a lambda. nil: of none.
	Registered func(lambda string) bool
	Clock      clock.Clock
	Log        *slog.Logger
	// Observer has hooks for metrics; nil is fine.
	Observer *sqsclient.Observer

	// NoPolicies says that new queues get no policy, for services that do not take one.
	NoPolicies bool
	// MessageBytesMax bounds a message, and all messages of one request: 256 KiB. It may be larger for queues
	// that take 1 MiB.
	MessageBytesMax int
	// PackTasksMax is how many tasks share a message at most: 16. 1 turns packing off.
	PackTasksMax int

	// Linger is how long a send waits for others when another one came just before it: 5 ms. Without it no
	// request waits for others. DeliverLinger is the same for deliveries: 30 ms.
	Linger, DeliverLinger time.Duration
	// AnswerMax is how long a receiver waits for SQS to answer about a queue before it takes tasks of a lower
	// priority: 50 ms. SQS answers sooner if there are messages, and else only at the end of a long poll.
	AnswerMax time.Duration
	// CloseGrace is how long Close waits for polls, since SQS may be answering them: 200 ms.
	CloseGrace time.Duration
}

func (c Config) withDefaults() Config {
	c.MessageBytesMax = cmp.Or(max(c.MessageBytesMax, 0), MessageBytesMaxDefault)
	c.PackTasksMax = cmp.Or(max(c.PackTasksMax, 0), PackTasksMaxDefault)
	c.Linger = max(cmp.Or(c.Linger, LingerDefault), 0)
	c.DeliverLinger = max(cmp.Or(c.DeliverLinger, DeliverLingerDefault), 0)
	c.AnswerMax = max(cmp.Or(c.AnswerMax, AnswerMaxDefault), 0)
	c.CloseGrace = max(cmp.Or(c.CloseGrace, CloseGraceDefault), 0)
	return c
}
