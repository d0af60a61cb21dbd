package sqs_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

func fifoLambda(name string, ref uint32) task.Lambda {
	l := deliverLambda(name, ref)
	l.FIFO = true
	return l
}

func TestQueuesOfAFIFOLambda(t *testing.T) {
	t.Parallel()
	specs := sqs.Queues("kin", fifoLambda("mail", 1))[:2]
	if specs[0].Name != "kin-mail-high-dlq.fifo" || specs[1].Name != "kin-mail-high.fifo" || specs[1].DeadLetterQueue != specs[0].Name {
		t.Errorf("%+v", specs)
	}
}

// ordered is a delivery with a limit key, and its number as payload.
func ordered(l task.Lambda, n int, limitKey string) queue.Delivery {
	d := deliveryOf(l, n, fmt.Append(nil, n))[0]
	d.Task.LimitKey = limitKey
	return d
}

// consumer reads one queue.
type consumer struct {
	testing.TB

	api sqs.API
	url *string
}

// receive returns up to ten messages, which stay hidden for so many seconds.
func (c *consumer) receive(seconds int32) []types.Message {
	c.Helper()
	got, err := c.api.ReceiveMessage(c.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: c.url, MaxNumberOfMessages: 10, VisibilityTimeout: seconds, WaitTimeSeconds: 1, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameMessageGroupId},
	})
	if err != nil {
		c.Fatal(err)
	}
	return got.Messages
}

func bodiesByGroup(messages []types.Message) map[string][]string {
	all := map[string][]string{}
	for _, m := range messages {
		group := m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)]
		all[group] = append(all[group], *m.Body)
	}
	return all
}

// TestFIFO delivers to a FIFO queue of the fake, and of ElasticMQ.
func TestFIFO(t *testing.T) {
	t.Parallel()
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		checkFIFO(t, fakesqs.New(fakesqs.Config{}), "test")
	})
	t.Run("ElasticMQ", func(t *testing.T) {
		t.Parallel()
		l := onElasticMQ(t)
		checkFIFO(t, l.api, l.prefix)
	})
}

func checkFIFO(t *testing.T, api sqs.API, prefix string) {
	t.Helper()
	all, lambda := &lambdas{}, fifoLambda("out", 9)
	d := sqs.New(api, sqs.Config{
		Prefix: prefix, Codec: sqs.StoreCodec, Lambda: all.get, Lambdas: all.list, Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	t.Cleanup(func() { _ = d.Close() })
	if err := d.Provision(t.Context(), lambda); err != nil {
		t.Fatal(err)
	}
	all.add(lambda)
	out, err := api.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String(prefix + "-out-high.fifo")})
	if err != nil {
		t.Fatal(err)
	}
	c := &consumer{t, api, out.QueueUrl}
	c.checkOrder(d, lambda)
	c.checkRedrive(d, lambda)
}

// checkOrder delivers messages twice, of which one each arrives, in order within its group.
func (c *consumer) checkOrder(d *sqs.Driver, lambda task.Lambda) {
	c.Helper()
	again := ordered(lambda, 0, "acme") // redriven: at another time
	again.Task.Due = again.Task.Due.Add(time.Second)
	all := []queue.Delivery{
		ordered(lambda, 0, "acme"), ordered(lambda, 1, "acme"), ordered(lambda, 2, "a b"), ordered(lambda, 3, ""), ordered(lambda, 4, ""), again,
	}
	for range 2 {
		if err := errors.Join(d.Deliver(c.Context(), all)...); err != nil {
			c.Fatal(err)
		}
	}
	const hash = "c8687a08aa5d6ed2044328fa6a697ab8e96dc34291e8c2034ae8c38e6fcc6d65" // of "a b", which SQS takes as no group
	want := map[string][]string{"acme": {"0", "1", "0"}, hash: {"2"}, all[3].Task.ID.String(): {"3"}, all[4].Task.ID.String(): {"4"}}
	got := c.receive(30)
	if groups := bodiesByGroup(got); fmt.Sprint(groups) != fmt.Sprint(want) {
		c.Errorf("received %v, want %v", groups, want)
	}
	if err := errors.Join(d.Deliver(c.Context(), []queue.Delivery{ordered(lambda, 5, "acme")})...); err != nil {
		c.Fatal(err)
	}
	if more := c.receive(30); len(more) > 0 {
		c.Errorf("received %v of a group of which messages are in flight", bodiesByGroup(more))
	}
	c.delete(got)
	more := c.receive(30)
	if groups := bodiesByGroup(more); !slices.Equal(groups["acme"], []string{"5"}) {
		c.Errorf("received %v after that, want the last one", groups)
	}
	c.delete(more)
}

// checkRedrive has a message die, and redrives it by hand: it comes back with its group, although it is sent
// within the time in which SQS remembers it.
func (c *consumer) checkRedrive(d *sqs.Driver, lambda task.Lambda) {
	c.Helper()
	if err := errors.Join(d.Deliver(c.Context(), []queue.Delivery{ordered(lambda, 6, "acme")})...); err != nil {
		c.Fatal(err)
	}
	for range sqs.DeliverReceivesMax {
		for _, m := range c.receive(30) {
			entry := types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String("0"), ReceiptHandle: m.ReceiptHandle}
			_, err := c.api.ChangeMessageVisibilityBatch(c.Context(), &awssqs.ChangeMessageVisibilityBatchInput{
				QueueUrl: c.url, Entries: []types.ChangeMessageVisibilityBatchRequestEntry{entry},
			})
			if err != nil {
				c.Fatal(err)
			}
		}
	}
	if some := c.receive(30); len(some) > 0 {
		c.Fatalf("received %v, which is dead", bodiesByGroup(some))
	}
	q, err := d.FindDeadLetters(c.Context(), lambda, "high")
	if err != nil || !strings.HasSuffix(q.Name, "-out-high-dlq.fifo") {
		c.Fatalf("%+v, %v", q, err)
	}
	if changed, _, err := d.ChangeDeadLetters(c.Context(), &q, queue.DeadLetterStep{Redrive: true, Before: clock.Real().Now(), For: time.Minute}); err != nil || changed != 1 {
		c.Fatalf("redrove %d, %v", changed, err)
	}
	if groups := bodiesByGroup(c.receive(30)); !slices.Equal(groups["acme"], []string{"6"}) {
		c.Errorf("received %v after the redrive", groups)
	}
}

func (c *consumer) delete(messages []types.Message) {
	c.Helper()
	for _, m := range messages {
		_, err := c.api.DeleteMessageBatch(c.Context(), &awssqs.DeleteMessageBatchInput{
			QueueUrl: c.url, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("0"), ReceiptHandle: m.ReceiptHandle}},
		})
		if err != nil {
			c.Fatal(err)
		}
	}
}

// A send whose answer is lost is sent again by the deliverer, and arrives once.
func TestALostAnswerOfAFIFOQueue(t *testing.T) {
	t.Parallel()
	service := fakesqs.New(fakesqs.Config{Attempts: 1})
	all, lambda := &lambdas{}, fifoLambda("out", 9)
	all.add(lambda)
	d := sqs.New(service, sqs.Config{Prefix: "test", Codec: sqs.StoreCodec, Lambda: all.get, Lambdas: all.list, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = d.Close() })
	if _, err := sqsclient.Create(t.Context(), service, sqs.Queues("test", lambda)); err != nil {
		t.Fatal(err)
	}
	service.Faults.Next("SendMessageBatch", awsfake.LostAnswer, 1)
	for try, fails := range []bool{true, false} {
		if err := d.Deliver(t.Context(), []queue.Delivery{ordered(lambda, 0, "")})[0]; (err != nil) != fails {
			t.Fatalf("try %d: %v", try, err)
		}
	}
	c := &consumer{t, service, aws.String("https://sqs.us-east-1.amazonaws.com/000000000000/test-out-high.fifo")}
	if got := c.receive(0); len(got) != 1 {
		t.Errorf("%d messages", len(got))
	}
}

// The limit key of a delivery is the message group on a standard queue, too, where it makes for fair turns.
func TestGroupsOnAStandardQueue(t *testing.T) {
	t.Parallel()
	l := onElasticMQ(t)
	d, _ := l.open(nil)
	lambda := l.create(d, deliverLambda("out", 9))
	with, without := ordered(lambda, 0, "acme"), ordered(lambda, 1, "")
	with.Delay, without.Delay = time.Second, time.Second
	if err := errors.Join(d.Deliver(t.Context(), []queue.Delivery{with, without})...); err != nil {
		t.Fatal(err)
	}
	c, got := &consumer{t, l.api, l.url("out-high")}, []types.Message(nil)
	for len(got) < 2 {
		got = append(got, c.receive(30)...)
	}
	if groups := bodiesByGroup(got); fmt.Sprint(groups) != "map[:[1] acme:[0]]" {
		t.Errorf("received %v", groups)
	}
}
