package sqs

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// transit is how long before its due time a message wants to be sent, so that it is received and claimed by then.
	transit = 25 * time.Millisecond
	// delaySlack is how much earlier than due a message becomes visible: SQS knows whole seconds, and
	// a receiver holds it back for the rest.
	delaySlack = time.Second
	// attributeTrace is the name of the attribute that has a message's W3C trace context.
	attributeTrace = "traceparent"
	stringType     = "String"
)

// call is one Send or Deliver whose messages go their own ways.
type call struct {
	mu      sync.Mutex
	results []error
	settled []bool
	left    int
	done    chan struct{}
}

func newCall(n int) *call {
	return &call{results: make([]error, n), settled: make([]bool, n), left: n, done: make(chan struct{})}
}

func (c *call) settle(i int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.settled[i] {
		return
	}
	c.results[i], c.settled[i] = err, true
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// wait returns the results; of what is still on its way when ctx ends it says so.
func (c *call) wait(ctx context.Context, d *Driver) []error {
	var why error
	select {
	case <-c.done:
		return c.results
	case <-ctx.Done():
		why = context.Cause(ctx)
	case <-d.ctx.Done():
		why = queue.ErrClosed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]error, len(c.results))
	for i := range results {
		if results[i] = c.results[i]; !c.settled[i] {
			results[i] = why
		}
	}
	return results
}

// refusal is why no call may be served.
func (d *Driver) refusal(ctx context.Context) error {
	if d.closed.Load() {
		return queue.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

func refuseAll(n int, err error) []error {
	results := make([]error, n)
	for i := range results {
		results[i] = err
	}
	return results
}

// outgoing is a task on its way into a message.
type outgoing struct {
	field  []byte
	due    task.Instant
	after  time.Duration // not visible before that
	alone  bool          // shares its message with no other
	trace  string
	settle func(error)
}

// Send implements queue.Driver. A message that could not be sent for now is tried again a few times; where the outcome of
// a request is unknown the error says so, and sending again does no harm: of two messages one is refused at the claim.
func (d *Driver) Send(ctx context.Context, messages []queue.Message) []error {
	if err := d.refusal(ctx); err != nil {
		return refuseAll(len(messages), err)
	}
	if len(messages) == 0 {
		return nil
	}
	c := newCall(len(messages))
	buf := make([]byte, 0, len(messages)*taskBytesUsual)
	ends := make([]int, len(messages))
	for i := range messages {
		buf = appendField(buf, &messages[i].Task)
		ends[i] = len(buf)
	}
	now, from := d.Clock.Now(), 0
	all := make([]outgoing, len(messages))
	groups := map[laneKey][]*outgoing{}
	for i := range messages {
		t, field := &messages[i].Task, buf[from:ends[i]:ends[i]]
		from = ends[i]
		if size := bodyBytes(len(field)) + traceBytes(t.Traceparent); size > d.MessageBytesMax {
			c.settle(i, fmt.Errorf("%w message of task %s: %d bytes, the queue takes %d; a payload that is stored apart does not count",
				task.ErrInvalid, t.ID, size, d.MessageBytesMax))
			continue
		}
		name := queue.NameFor(t)
		all[i] = outgoing{
			field: field, due: t.Due, alone: name.Class != queue.Normal, trace: t.Traceparent,
			settle: func(err error) { c.settle(i, err) },
		}
		groups[keyOf(name)] = append(groups[keyOf(name)], &all[i])
	}
	for key, group := range groups {
		d.sendGroup(key, group, now)
	}
	return c.wait(ctx, d)
}

// taskBytesUsual is what a task's row is mostly shorter than, in bytes.
const taskBytesUsual = 256

func (d *Driver) sendGroup(key laneKey, group []*outgoing, now task.Instant) {
	l, err := d.laneOf(key, task.Managed)
	if err != nil {
		for _, o := range group {
			o.settle(err)
		}
		return
	}
	l.depths.sent(len(group))
	linger, free := d.lingerFor(group, now)
	l.sends.add(group, linger, free)
}

// lingerFor is how long messages may wait for others. It is free when they are due later than that.
func (d *Driver) lingerFor(group []*outgoing, now task.Instant) (linger time.Duration, free bool) {
	due := forever
	for _, o := range group {
		due = min(due, o.due)
	}
	if spare := due.Sub(now) - transit; spare > d.Linger && d.AheadLinger > 0 {
		return min(spare, d.AheadLinger), true
	}
	return d.Linger, false
}

// delayFor is the whole seconds for which SQS may hide a message.
func (o *outgoing) delayFor(now task.Instant) int32 {
	wait := o.due.Sub(now) - delaySlack
	if o.after > 0 { // rounded up: a message is not returned early
		wait = max(wait, o.after+time.Second-1)
	}
	return int32(min(max(wait, 0), delayMax) / time.Second)
}

// message is one entry of a batch.
type message struct {
	entry  types.SendMessageBatchRequestEntry
	bytes  int
	tasks  int // 0 for a delivery
	settle func(error)
	reason string // why it was not taken for the moment
}

// sendTasks packs tasks and sends them.
func (l *lane) sendTasks(items []*outgoing) {
	l.sendAll(l.pack(items))
}

// sendAll sends messages in as few requests as SQS allows.
func (l *lane) sendAll(messages []message) {
	for len(messages) > 0 {
		n, bytes := 0, 0
		for n < len(messages) && n < batchEntriesMax && (n == 0 || bytes+messages[n].bytes <= l.driver.MessageBytesMax) {
			bytes += messages[n].bytes
			n++
		}
		l.sendBatch(messages[:n])
		messages = messages[n:]
	}
}

// sendBatch sends up to ten messages, and again those that SQS could not take for the moment.
func (l *lane) sendBatch(messages []message) {
	d := l.driver
	for try := 0; ; try++ {
		failed, err := l.sendOnce(messages)
		if err != nil {
			for i := range messages {
				messages[i].settle(err)
			}
			return
		}
		if len(failed) == 0 {
			return
		}
		if !d.backOff(d.ctx, try+1) {
			for i := range failed {
				failed[i].settle(fmt.Errorf("send to SQS queue %s: refused %d times, the last time as %s", l.name, try+1, failed[i].reason))
			}
			return
		}
		messages = failed
	}
}

// sendOnce settles what is decided and returns what may be tried again.
func (l *lane) sendOnce(messages []message) (again []message, err error) {
	d := l.driver
	entries := make([]types.SendMessageBatchRequestEntry, len(messages))
	bytes := 0
	for i := range messages {
		entries[i] = messages[i].entry
		entries[i].Id = &entryIDs[i]
		bytes += messages[i].bytes
	}
	r := Request{Queue: l.name, Action: ActionSend, Entries: len(entries), Bytes: bytes}
	out, err := requestTo(d.ctx, d, r, func(ctx context.Context, url *string) (*sqs.SendMessageBatchOutput, error) {
		return d.api.SendMessageBatch(ctx, &sqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
	})
	if err != nil {
		return nil, err
	}
	var answered [batchEntriesMax]bool
	for i := range out.Successful {
		if k, ok := entryOf(out.Successful[i].Id, len(messages)); ok {
			answered[k] = true
			messages[k].settle(nil)
			if messages[k].tasks > 0 {
				d.observeSent(l.name, messages[k].tasks)
			} else {
				d.observeDelivered(l.name)
			}
		}
	}
	for i := range out.Failed {
		failure := &out.Failed[i]
		k, ok := entryOf(failure.Id, len(messages))
		if !ok || answered[k] {
			continue
		}
		answered[k] = true
		code := aws.ToString(failure.Code)
		d.observeFailed(l.name, ActionSend, code)
		if failure.SenderFault {
			messages[k].settle(fmt.Errorf("%w: SQS queue %s refuses a message of %d bytes: %s %s",
				queue.ErrUndeliverable, l.name, messages[k].bytes, code, aws.ToString(failure.Message)))
			continue
		}
		messages[k].reason = code
		again = append(again, messages[k])
	}
	for k := range messages {
		if !answered[k] {
			messages[k].settle(fmt.Errorf("send to SQS queue %s: no word of this message in the answer", l.name))
		}
	}
	return again, nil
}

// traceBytes is what the trace context adds to a message that has it as an attribute.
func traceBytes(trace string) int {
	if trace == "" {
		return 0
	}
	return len(attributeTrace) + len(stringType) + len(trace)
}

func textAttribute(text string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String(stringType), StringValue: &text}
}
