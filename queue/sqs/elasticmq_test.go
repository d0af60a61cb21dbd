package sqs_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(awslocal.Main(m)) }

// counts has the calls of an Observer.
type counts struct {
	mu        sync.Mutex
	requests  map[sqsclient.Action]int
	entries   map[sqsclient.Action]int
	discarded map[string]int
	messages  int
	tasks     int
	returned  int
	resent    int
	unknown   int
}

func (c *counts) observer() *sqsclient.Observer {
	c.requests, c.entries, c.discarded = map[sqsclient.Action]int{}, map[sqsclient.Action]int{}, map[string]int{}
	return &sqsclient.Observer{
		Request: func(r sqsclient.Request) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.requests[r.Action]++
			c.entries[r.Action] += r.Entries
			if r.Unknown {
				c.unknown++
			}
		},
		Sent: func(_ string, tasks int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.messages++
			c.tasks += tasks
		},
		Discarded: func(_, reason string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.discarded[reason]++
		},
		Returned: func(_ string, tasks, resent int) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.returned += tasks
			c.resent += resent
		},
	}
}

func (c *counts) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("requests %v, entries %v, %d tasks in %d messages, %d returned of which %d resent, discarded %v",
		c.requests, c.entries, c.tasks, c.messages, c.returned, c.resent, c.discarded)
}

// total returns the requests, without those made once for each queue.
func (c *counts) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for action, times := range c.requests {
		if action != sqsclient.ActionURL {
			n += times
		}
	}
	return n
}

// lambdas is a catalog that only grows.
type lambdas struct {
	mu  sync.Mutex
	all map[uint32]task.Lambda
}

func (c *lambdas) add(l task.Lambda) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[uint32]task.Lambda{}
	}
	c.all[l.Ref] = l
}

func (c *lambdas) remove(ref uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, ref)
}

func (c *lambdas) get(ref uint32) (task.Lambda, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, found := c.all[ref]
	return l, found
}

func (c *lambdas) list() []task.Lambda {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]task.Lambda, 0, len(c.all))
	for _, l := range c.all {
		list = append(list, l)
	}
	return list
}

// local has queues on ElasticMQ.
type local struct {
	testing.TB

	api     *awssqs.Client
	prefix  string
	lambdas *lambdas
}

func onElasticMQ(tb testing.TB) *local {
	tb.Helper()
	aws := awslocal.Start(tb)
	return &local{TB: tb, api: awssqs.NewFromConfig(aws.Config(tb)), prefix: aws.Prefix(tb), lambdas: &lambdas{}}
}

func (l *local) open(change func(*sqs.Config)) (*sqs.Driver, *counts) {
	l.Helper()
	c := &counts{}
	config := sqs.Config{
		Prefix: l.prefix, Codec: sqs.StoreCodec, Lambda: l.lambdas.get, Lambdas: l.lambdas.list, Clock: clock.Real(),
		Log: slog.New(slog.NewTextHandler(l.Output(), nil)), Observer: c.observer(),
	}
	if change != nil {
		change(&config)
	}
	d := sqs.New(l.api, config)
	d.UseSealer(sqs.TestSealer)
	l.Cleanup(func() { _ = d.Close() })
	return d, c
}

func (l *local) create(d *sqs.Driver, lambda task.Lambda) task.Lambda {
	l.Helper()
	lambda = lambda.WithDefaults()
	if err := d.CheckLambda(lambda); err != nil {
		l.Fatal(err)
	}
	if err := d.Provision(l.Context(), lambda); err != nil {
		l.Fatal(err)
	}
	l.lambdas.add(lambda)
	return lambda
}

func taskOf(ref uint32, n int, due task.Instant) queue.Message {
	t := task.Task{Partition: task.Partition{Lambda: ref}, State: task.Enqueued, Seq: 2, Due: due, Created: due, Attempt: uint32(n)}
	t.ID = task.IDOf([]byte("test"), fmt.Appendf(nil, "%d", n))
	return queue.Message{Task: t}
}

func (l *local) send(d *sqs.Driver, messages ...queue.Message) {
	l.Helper()
	for i, err := range d.Send(l.Context(), messages) {
		if err != nil {
			l.Fatalf("send %d: %v", i, err)
		}
	}
}
