package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// consumers read a lambda's queue at a time; they run in this process, so that their CPU is not the server's.
const consumers = 2

// result is what a consumer saw of a load.
type result struct {
	jobs  int
	late  []time.Duration // when the message was in its queue, after its due time; sorted
	last  time.Time       // when the last one was
	first time.Time       // the first due time
	lost  int
	early int
	twice int
	spent spent
}

func (r *result) rate() float64 { return float64(len(r.late)) / r.last.Sub(r.first).Seconds() }

func (r *result) percentile(p int) time.Duration {
	if len(r.late) == 0 {
		return 0
	}
	return r.late[min(len(r.late)*p/100, len(r.late)-1)]
}

func (r *result) perJob(n float64) float64 { return n / float64(r.jobs) }

func (r *result) cpuPerThousand() float64 { return r.perJob(r.spent.cpu.Seconds()) * 1000 }

// consume reads n messages as any consumer would, and goes on for a moment to meet those that come twice.
func (b *bench) consume(ctx context.Context, queue string, n int, until time.Time) (*result, error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	url, err := b.sqs.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: aws.String(queue)})
	if err != nil {
		return nil, err
	}
	c := &consumer{bench: b, url: url.QueueUrl, want: n, seen: map[string]int{}, result: &result{jobs: n}, done: cancel}
	var group sync.WaitGroup
	for range consumers {
		group.Go(func() { c.run(ctx) })
	}
	group.Wait()
	c.result.lost = n - len(c.seen)
	slices.Sort(c.result.late)
	return c.result, c.err
}

type consumer struct {
	*bench
	url  *string
	want int
	done context.CancelFunc

	mu     sync.Mutex // guards what follows
	seen   map[string]int
	result *result
	err    error
}

func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		out, err := c.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: c.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 2, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp},
		})
		if err != nil {
			return // the end of ctx, or what is missing is counted as lost
		}
		entries := make([]types.DeleteMessageBatchRequestEntry, len(out.Messages))
		for i := range out.Messages {
			c.note(&out.Messages[i])
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: out.Messages[i].ReceiptHandle}
		}
		if len(entries) > 0 {
			_, _ = c.sqs.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: c.url, Entries: entries})
		} else if c.complete() {
			c.done() // a silent poll after the last one: nothing came twice
		}
	}
}

func (c *consumer) complete() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen) >= c.want
}

func (c *consumer) note(m *types.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := m.MessageAttributes["kinesin-task-id"].StringValue
	dueText := m.MessageAttributes["kinesin-due"].StringValue
	if id == nil || dueText == nil {
		c.err = fmt.Errorf("a message without kinesin-task-id or kinesin-due")
		return
	}
	due, err := time.Parse(time.RFC3339Nano, *dueText)
	if err != nil {
		c.err = err
		return
	}
	ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		c.err = err
		return
	}
	sent := time.UnixMilli(ms)
	if c.seen[*id]++; c.seen[*id] > 1 {
		c.result.twice++
		return
	}
	if sent.Before(due) {
		c.result.early++
	}
	if sent.After(c.result.last) {
		c.result.last = sent
	}
	c.result.late = append(c.result.late, sent.Sub(due))
}
