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
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

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
