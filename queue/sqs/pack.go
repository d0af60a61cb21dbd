package sqs

import "github.com/aws/aws-sdk-go-v2/service/sqs/types"

const (
	// spread is over how many messages a few tasks are spread that would fit into one, so that two receivers can share
	// them. With one the second would have to wait until the first gives back what it cannot take.
	spread = 2
	// packBytesMax bounds a message with several tasks. Larger ones would save nothing: SQS bills by 64 KiB.
	packBytesMax = 60 << 10
)

// pack puts tasks into messages: alone where that is asked for or only few are there, and else as many together as it
// takes to send all with one request. Those of one message may be handed out at about the same time.
func (l *lane) pack(items []*outgoing) []message {
	now := l.driver.Clock.Now()
	messages := make([]message, 0, batchEntriesMax)
	byDelay := map[int32][]*outgoing{}
	for _, o := range items {
		if o.alone {
			messages = append(messages, l.seal([]*outgoing{o}, o.delayFor(now)))
			continue
		}
		delay := o.delayFor(now)
		byDelay[delay] = append(byDelay[delay], o)
	}
	for delay, together := range byDelay {
		for _, part := range l.split(together) {
			messages = append(messages, l.seal(part, delay))
		}
	}
	return messages
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
func (l *lane) seal(items []*outgoing, delay int32) message {
	fields := make([][]byte, len(items))
	for i, o := range items {
		fields[i] = o.field
	}
	body := encodeBody(fields...)
	m := message{
		entry: types.SendMessageBatchRequestEntry{MessageBody: &body, DelaySeconds: delay},
		bytes: len(body), tasks: len(items),
		settle: func(err error) {
			for _, o := range items {
				o.settle(err)
			}
		},
	}
	if trace := items[0].trace; len(items) == 1 && trace != "" {
		m.entry.MessageAttributes = map[string]types.MessageAttributeValue{attributeTrace: textAttribute(trace)}
		m.bytes += traceBytes(trace)
	}
	return m
}
