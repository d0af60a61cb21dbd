package sqs

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// The attributes of a delivered message. A consumer needs none of them.
const (
	// AttributeTaskID has the task's public id, by which a consumer knows a message that comes twice.
	AttributeTaskID = "kinesin-task-id"
	// AttributeDue has the time for which the task was scheduled, in RFC 3339 with milliseconds, UTC.
	AttributeDue = "kinesin-due"
	// AttributeTraceparent has the W3C trace context of who scheduled the task, where there is one.
	AttributeTraceparent = attributeTrace
	// AttributeEncoding is there only when the body is not the payload itself: see EncodingBase64 and
	// EncodingEmpty.
	AttributeEncoding = "kinesin-encoding"
	// EncodingBase64: the body is the payload in standard base64, because SQS takes only text without control
	// characters.
	EncodingBase64 = "base64"
	// EncodingEmpty: the payload has no bytes, which SQS does not take; the body is "-".
	EncodingEmpty = "empty"
)

const (
	dueForm       = "2006-01-02T15:04:05.000Z07:00"
	publicIDBytes = 300 // of a task's public id, at most
	// attributesBytesMax is what the attributes of a delivery add to its size at most.
	attributesBytesMax = len(AttributeTaskID) + len(AttributeDue) + len(AttributeTraceparent) + len(AttributeEncoding) + 4*len("String") +
		publicIDBytes + len(dueForm) + task.TraceparentBytesMax + len(EncodingBase64)
	emptyBody = "-"
)

// Deliver implements queue.Deliverer. Deliveries of concurrent callers share requests. A delay counts from
// when SQS has the message, so it may become visible later than asked for, by as long as it waited here, and
// never earlier.
func (d *Driver) Deliver(ctx context.Context, deliveries []queue.Delivery) []error {
	if err := d.refusal(ctx); err != nil {
		return refuseAll(len(deliveries), err)
	}
	if len(deliveries) == 0 {
		return nil
	}
	c := make(call, len(deliveries))
	groups := map[laneKey][]*outgoing{}
	for i := range deliveries {
		v := &deliveries[i]
		m, err := d.messageOf(v)
		if err != nil {
			c.settle(i, err)
			continue
		}
		key := keyOf(queue.NameFor(&v.Task))
		groups[key] = append(groups[key], &outgoing{delivery: m, settle: func(err error) { c.settle(i, err) }})
	}
	for key, group := range groups {
		d.sendGroup(key, task.Deliver, group, d.DeliverLinger, false)
	}
	return c.wait(ctx, d)
}

// CheckPayload implements queue.Deliverer.
func (d *Driver) CheckPayload(payload []byte) error {
	size := len(payload)
	if !isText(payload) {
		size = base64.StdEncoding.EncodedLen(size)
	}
	if most := d.MessageBytesMax - attributesBytesMax; size > most {
		return fmt.Errorf("%w: its message body has %d bytes, want at most %d (%d of the queue's %d are for attributes; "+
			"a payload that is not text is sent in base64, a third larger)", queue.ErrUndeliverable, size, most, attributesBytesMax, d.MessageBytesMax)
	}
	return nil
}

func (d *Driver) messageOf(v *queue.Delivery) (*sqsclient.Message, error) {
	if err := d.CheckPayload(v.Payload); err != nil {
		return nil, fmt.Errorf("task %s: %w", v.Task.ID, err)
	}
	m := &sqsclient.Message{
		DelaySeconds: sqsclient.SecondsUp(v.Delay),
		Attributes:   map[string]string{AttributeTaskID: v.ID, AttributeDue: v.Task.Due.Time().UTC().Format(dueForm)},
	}
	if trace := v.Task.Traceparent; trace != "" {
		m.Attributes[AttributeTraceparent] = trace
	}
	switch {
	case len(v.Payload) == 0:
		m.Body = emptyBody
		m.Attributes[AttributeEncoding] = EncodingEmpty
	case isText(v.Payload):
		m.Body = string(v.Payload)
	default:
		m.Body = base64.StdEncoding.EncodeToString(v.Payload)
		m.Attributes[AttributeEncoding] = EncodingBase64
	}
	return m, nil
}

// isText reports whether SQS takes the bytes as they are: UTF-8 of the characters that XML allows.
func isText(payload []byte) bool {
	return utf8.Valid(payload) && !bytes.ContainsFunc(payload, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
	})
}
