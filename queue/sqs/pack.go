package sqs

import (
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// delaySlack is how long before its due time a message becomes visible: SQS counts whole seconds, and
	// a receiver holds the message back for the rest.
	delaySlack = time.Second
	// attributeTrace is the message attribute of the W3C trace context.
	attributeTrace = "traceparent"
	// packsMin is into how many messages a few tasks are packed although they fit into one, so that two
	// processes can share them.
	packsMin = 2
	// packBytesMax bounds a message with several tasks. A larger one saves nothing: SQS bills by 64 KiB.
	packBytesMax = 60 << 10
)

// delaySeconds returns for how long SQS hides a message.
func (o *outgoing) delaySeconds(now task.Instant) int32 {
	wait := o.due.Sub(now) - delaySlack
	if o.after > 0 { // rounded up: a message is not visible early
		wait = max(wait, o.after+time.Second-1)
	}
	return int32(min(max(wait, 0), queue.DelayMax) / time.Second)
}

// send packs tasks into messages, or takes deliveries as they are, and sends them.
func (l *lane) send(items []*outgoing) []error {
	d := l.driver
	messages, packs := l.pack(items)
	for i, err := range d.client.Send(d.ctx, l.name, messages) {
		if refusal, found := errors.AsType[*sqsclient.EntryError](err); found && refusal.SenderFault {
			err = fmt.Errorf("%w: SQS queue %s, message of %d bytes: %w", queue.ErrUndeliverable, l.name, messages[i].Bytes(), err)
		} else if found {
			err = fmt.Errorf("send to SQS queue %s: %w", l.name, err)
		}
		for _, o := range packs[i] {
			o.err = err
			if o.done != nil {
				o.done(err)
			}
		}
		if err == nil && l.mode == task.Managed {
			d.client.Observer.Sent(l.name, len(packs[i]))
		}
	}
	results := make([]error, len(items))
	for i, o := range items {
		results[i] = o.err
	}
	return results
}

// pack puts tasks into messages: alone where that is asked for, and else so many together that one request
// sends all. Tasks of one message become visible in the same second.
func (l *lane) pack(items []*outgoing) (messages []sqsclient.Message, packs [][]*outgoing) {
	now := l.driver.Clock.Now()
	byDelay := map[int32][]*outgoing{}
	for _, o := range items {
		switch delay := o.delaySeconds(now); {
		case o.delivery != nil:
			messages, packs = append(messages, *o.delivery), append(packs, []*outgoing{o})
		case o.alone:
			messages, packs = append(messages, l.messageOf([]*outgoing{o}, delay)), append(packs, []*outgoing{o})
		default:
			byDelay[delay] = append(byDelay[delay], o)
		}
	}
	for delay, together := range byDelay {
		for _, pack := range l.split(together) {
			messages, packs = append(messages, l.messageOf(pack, delay)), append(packs, pack)
		}
	}
	return messages, packs
}

// split cuts tasks into equal parts that each fit into a message.
func (l *lane) split(items []*outgoing) [][]*outgoing {
	most := l.driver.PackTasksMax
	parts := max(min(packsMin, len(items)), (len(items)+most-1)/most)
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

// messageOf makes one message of tasks.
func (l *lane) messageOf(items []*outgoing, delay int32) sqsclient.Message {
	fields := make([][]byte, len(items))
	for i, o := range items {
		fields[i] = o.field
	}
	m := sqsclient.Message{Body: encodeBody(l.driver.sealer, l.name, fields...), DelaySeconds: delay}
	if trace := items[0].trace; len(items) == 1 && trace != "" {
		m.Attributes = map[string]string{attributeTrace: trace}
	}
	return m
}

// traceBytes returns what the trace context adds to a message that has it as an attribute.
func traceBytes(trace string) int {
	if trace == "" {
		return 0
	}
	return sqsclient.AttributeBytes(attributeTrace, trace)
}
