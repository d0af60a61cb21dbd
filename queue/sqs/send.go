package sqs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// transit is how long before its due time a message wants to be sent, so that it is received and claimed
	// by then.
	transit = 25 * time.Millisecond
	// delaySlack is how much earlier than due a message becomes visible: SQS knows whole seconds, and
	// a receiver holds it back for the rest.
	delaySlack = time.Second
	// attributeTrace is the name of the attribute that has a message's W3C trace context.
	attributeTrace = "traceparent"
	// spread is over how many messages a few tasks are spread that would fit into one, so that two receivers
	// can share them. With one the second would have to wait until the first gives back what it cannot take.
	spread = 2
	// packBytesMax bounds a message with several tasks. Larger ones would save nothing: SQS bills by 64 KiB.
	packBytesMax = 60 << 10
	// taskBytesUsual is what a task's row is mostly shorter than, in bytes.
	taskBytesUsual = 256
)

// call is one Send or Deliver whose messages go their own ways.
type call chan outcome

// outcome is what became of the message at a place in the call.
type outcome struct {
	at  int
	err error
}

func (c call) settle(at int, err error) { c <- outcome{at, err} }

// wait returns the results; of what is still on its way when ctx ends it says so.
func (c call) wait(ctx context.Context, d *Driver) []error {
	results := make([]error, cap(c))
	open := make(map[int]bool, cap(c))
	for i := range results {
		open[i] = true
	}
	for len(open) > 0 {
		var why error
		select {
		case o := <-c:
			results[o.at] = o.err
			delete(open, o.at)
			continue
		case <-ctx.Done():
			why = context.Cause(ctx)
		case <-d.ctx.Done():
			why = queue.ErrClosed
		}
		for i := range open {
			results[i] = why
		}
		break
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

// outgoing is a task, or a delivery, on its way into a message.
type outgoing struct {
	delivery *sqsclient.Message // nil for a task
	field    []byte
	due      task.Instant
	after    time.Duration // not visible before that
	alone    bool          // shares its message with no other
	trace    string
	settle   func(error)
}

// Send implements queue.Driver. A message that could not be sent for now is tried again a few times; where
// the outcome of a request is unknown the error says so, and sending again does no harm: of two messages one
// is refused at the claim.
func (d *Driver) Send(ctx context.Context, messages []queue.Message) []error {
	if err := d.refusal(ctx); err != nil {
		return refuseAll(len(messages), err)
	}
	if len(messages) == 0 {
		return nil
	}
	c, now := make(call, len(messages)), d.Clock.Now()
	groups := map[laneKey][]*outgoing{}
	for i := range messages {
		t := &messages[i].Task
		field := d.Codec.field(t)
		if size := bodyBytes(len(field)) + traceBytes(t.Traceparent); size > d.MessageBytesMax {
			c.settle(i, fmt.Errorf("%w message of task %s: %d bytes, the queue takes %d; a payload that is stored apart does not count",
				task.ErrInvalid, t.ID, size, d.MessageBytesMax))
			continue
		}
		name := queue.NameFor(t)
		groups[keyOf(name)] = append(groups[keyOf(name)], &outgoing{
			field: field, due: t.HeldUntil(), alone: name.Class != queue.Normal, trace: t.Traceparent,
			settle: func(err error) { c.settle(i, err) },
		})
	}
	for key, group := range groups {
		linger, free := d.lingerFor(group, now)
		if l := d.sendGroup(key, task.Managed, group, linger, free); l != nil {
			l.depths.sent(len(group))
		}
	}
	return c.wait(ctx, d)
}

// sendGroup hands over what goes to one queue; nil when there is no such queue.
func (d *Driver) sendGroup(key laneKey, use task.Mode, group []*outgoing, linger time.Duration, patient bool) *lane {
	l, err := d.laneOf(key, use)
	if err != nil {
		for _, o := range group {
			o.settle(err)
		}
		return nil
	}
	l.sends.add(group, linger, patient)
	return l
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
	return int32(min(max(wait, 0), queue.DelayMax) / time.Second)
}

// sendAll packs tasks, or takes deliveries as they are, and sends them.
func (l *lane) sendAll(items []*outgoing) {
	d := l.driver
	messages, packs := l.pack(items)
	for i, err := range d.client.Send(d.ctx, l.name, messages) {
		if refusal, found := errors.AsType[*sqsclient.EntryError](err); found && refusal.SenderFault {
			err = fmt.Errorf("%w: SQS queue %s, message of %d bytes: %w", queue.ErrUndeliverable, l.name, messages[i].Bytes(), err)
		} else if found {
			err = fmt.Errorf("send to SQS queue %s: %w", l.name, err)
		}
		for _, o := range packs[i] {
			o.settle(err)
		}
		if err == nil && l.mode == task.Managed {
			d.client.Observer.Sent(l.name, len(packs[i]))
		}
	}
}

// pack puts tasks into messages: alone where that is asked for or only few are there, and else as many
// together as it takes to send all with one request. Those of one message may be handed out at about the same
// time.
func (l *lane) pack(items []*outgoing) (messages []sqsclient.Message, packs [][]*outgoing) {
	now := l.driver.Clock.Now()
	byDelay := map[int32][]*outgoing{}
	for _, o := range items {
		switch delay := o.delayFor(now); {
		case o.delivery != nil:
			messages, packs = append(messages, *o.delivery), append(packs, []*outgoing{o})
		case o.alone:
			messages, packs = append(messages, seal([]*outgoing{o}, delay)), append(packs, []*outgoing{o})
		default:
			byDelay[delay] = append(byDelay[delay], o)
		}
	}
	for delay, together := range byDelay {
		for _, pack := range l.split(together) {
			messages, packs = append(messages, seal(pack, delay)), append(packs, pack)
		}
	}
	return messages, packs
}

// split cuts tasks into equal parts that fit into a message each.
func (l *lane) split(items []*outgoing) [][]*outgoing {
	most := l.driver.PackTasksMax
	parts := max(min(spread, len(items)), (len(items)+most-1)/most)
	each := (len(items) + parts - 1) / parts
	limit := min(packBytesMax, l.driver.MessageBytesMax)
	cut := make([][]*outgoing, 0, parts)
	for len(items) > 0 {
		n, bytes := 0, 0
		for n < len(items) && n < each && (n == 0 || bodyBytes(bytes+len(items[n].field)) <= limit) {
			bytes += len(items[n].field)
			n++
		}
		cut = append(cut, items[:n])
		items = items[n:]
	}
	return cut
}

// seal makes one message of tasks.
func seal(items []*outgoing, delay int32) sqsclient.Message {
	fields := make([][]byte, len(items))
	for i, o := range items {
		fields[i] = o.field
	}
	m := sqsclient.Message{Body: encodeBody(fields...), DelaySeconds: delay}
	if trace := items[0].trace; len(items) == 1 && trace != "" {
		m.Attributes = map[string]string{attributeTrace: trace}
	}
	return m
}

// traceBytes is what the trace context adds to a message that has it as an attribute.
func traceBytes(trace string) int {
	if trace == "" {
		return 0
	}
	return sqsclient.AttributeBytes(attributeTrace, trace)
}
