package sqs

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// The attributes of a delivered message. A consumer needs none of them.
const (
	// AttributeTaskID is the task's public id, by which a consumer recognises a message that comes twice.
	AttributeTaskID = "kinesin-task-id"
	// AttributeDue is the task's due time in RFC 3339 with milliseconds, UTC.
	AttributeDue = "kinesin-due"
	// AttributeTraceparent is the W3C trace context of the caller, if it gave one.
	AttributeTraceparent = attributeTrace
	// AttributeEncoding is set only when the body is not the payload itself: see EncodingBase64 and
	// EncodingEmpty.
	AttributeEncoding = "kinesin-encoding"
	// EncodingBase64 means that the body is the payload in standard base64: SQS takes only text without
	// control characters.
	EncodingBase64 = "base64"
	// EncodingEmpty means that the payload is empty, which SQS does not take; the body is "-".
	EncodingEmpty = "empty"
)

const (
	dueForm       = "2006-01-02T15:04:05.000Z07:00"
	publicIDBytes = 300 // at most
	// attributesBytesMax is the most that the attributes add to the size of a delivery.
	attributesBytesMax = len(AttributeTaskID) + len(AttributeDue) + len(AttributeTraceparent) + len(AttributeEncoding) + 4*len("String") +
		publicIDBytes + len(dueForm) + task.TraceparentBytesMax + len(EncodingBase64)
	emptyBody = "-"
)

// Deliver implements queue.Deliverer. Deliveries of concurrent callers share requests. SQS counts a delay
// from when it has the message, so a message may become visible later than asked for, and never earlier.
func (d *Driver) Deliver(ctx context.Context, deliveries []queue.Delivery) []error {
	if err := d.usable(ctx); err != nil {
		return slices.Repeat([]error{err}, len(deliveries))
	}
	results, all := make([]error, len(deliveries)), batches{}
	for i := range deliveries {
		v := &deliveries[i]
		m, err := d.deliveryMessage(v)
		if err != nil {
			results[i] = err
			continue
		}
		if l, known := d.Lambda(v.Task.Partition.Lambda); known && l.FIFO {
			m.GroupID, m.DeduplicationID = cmp.Or(m.GroupID, v.Task.ID.String()), deduplicationID(&v.Task)
		}
		all.add(keyOf(queue.NameFor(&v.Task)), &outgoing{delivery: m}, i)
	}
	d.sendAll(ctx, all, task.Deliver, results)
	return results
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

func (d *Driver) deliveryMessage(v *queue.Delivery) (*sqsclient.Message, error) {
	if err := d.CheckPayload(v.Payload); err != nil {
		return nil, fmt.Errorf("task %s: %w", v.Task.ID, err)
	}
	m := &sqsclient.Message{
		DelaySeconds: sqsclient.SecondsUp(v.Delay), GroupID: groupID(v.Task.LimitKey),
		Attributes: map[string]string{AttributeTaskID: v.ID, AttributeDue: v.Task.Due.Time().UTC().Format(dueForm)},
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

// groupIDForm is what SQS takes.
var groupIDForm = regexp.MustCompile("^[a-zA-Z0-9!-/:-@[-`{-~]{1,128}$")

// groupID returns the message group of a limit key: the key, or the SHA-256 of one that SQS does not take, in
// hex. It is empty without a key.
func groupID(limitKey string) string {
	if limitKey == "" || groupIDForm.MatchString(limitKey) {
		return limitKey
	}
	sum := sha256.Sum256([]byte(limitKey))
	return hex.EncodeToString(sum[:])
}

// deduplicationID tells deliveries apart: another one of the same task, such as of a key that is used again,
// has another life or due time.
func deduplicationID(t *task.Task) string { return fmt.Sprintf("%s-%d-%d", t.ID, t.Life, t.Due) }

// isText reports whether SQS takes the bytes as they are: UTF-8 text of characters that XML allows.
func isText(payload []byte) bool {
	return utf8.Valid(payload) && !bytes.ContainsFunc(payload, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
	})
}
