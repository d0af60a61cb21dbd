package sqs

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/task"
)

// A body that only Kinesin reads is text: the mark with the format's number, and then, in URL-safe base64
// without padding, fields in protobuf wire format: one of bytes for each task, in the codec's encoding. A
// field that is unknown to a reader is skipped; so a release that adds one must be able to read it a release
// before any writes it. What an older reader must not skip raises the number.
const (
	envelopeMark           = "k1."
	envelopeMarkFamily     = "k"
	fieldTask              = protowire.Number(1)
	envelopeBytesPerField  = 6       // tag and length, at most, of what fits in a message
	envelopeDecodedTaskMax = 1 << 10 // tasks in one message, of whatever sender
)

// Refusals of a body.
var (
	// errEnvelopeVersion marks a body that a newer release wrote.
	errEnvelopeVersion = errors.New("message of a newer format")
	// errEnvelope marks a body that no release wrote.
	errEnvelope = errors.New("message is not one of Kinesin's")
)

// Codec is how one task is written: the store's encoding of its row.
type Codec struct {
	Append func(dst []byte, t *task.Task) []byte
	Decode func(row []byte) (task.Task, error)
	Newer  error // what Decode refuses a row with that a newer release wrote
}

var bodyEncoding = base64.RawURLEncoding

// bodyBytes is how long the body with so many bytes of fields is.
func bodyBytes(fields int) int { return len(envelopeMark) + bodyEncoding.EncodedLen(fields) }

// field is a task as it goes into an envelope.
func (c *Codec) field(t *task.Task) []byte {
	row := c.Append(make([]byte, 0, taskBytesUsual), t)
	field := protowire.AppendTag(make([]byte, 0, len(row)+envelopeBytesPerField), fieldTask, protowire.BytesType)
	return protowire.AppendBytes(field, row)
}

// encodeBody makes the body of a message out of fields.
func encodeBody(fields ...[]byte) string {
	total := 0
	for _, f := range fields {
		total += len(f)
	}
	raw := make([]byte, 0, total)
	for _, f := range fields {
		raw = append(raw, f...)
	}
	body := make([]byte, bodyBytes(total))
	copy(body, envelopeMark)
	bodyEncoding.Encode(body[len(envelopeMark):], raw)
	return string(body)
}

// decodeBody reads what encodeBody wrote. A task's payload shares memory with the others of the message.
func (c *Codec) decodeBody(body string) ([]task.Task, error) {
	text, ok := strings.CutPrefix(body, envelopeMark)
	if !ok {
		return nil, refuseBody(body)
	}
	raw, err := bodyEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errEnvelope, err)
	}
	var tasks []task.Task
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeField(raw)
		if n < 0 {
			return nil, fmt.Errorf("%w: %w", errEnvelope, protowire.ParseError(n))
		}
		field := raw[:n]
		raw = raw[n:]
		if number != fieldTask || kind != protowire.BytesType {
			continue
		}
		if len(tasks) == envelopeDecodedTaskMax {
			return nil, fmt.Errorf("%w: more than %d tasks", errEnvelope, envelopeDecodedTaskMax)
		}
		row, _ := protowire.ConsumeBytes(field[protowire.SizeTag(fieldTask):])
		t, err := c.Decode(row)
		if errors.Is(err, c.Newer) {
			return nil, fmt.Errorf("%w: %w", errEnvelopeVersion, err)
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", errEnvelope, err)
		}
		tasks = append(tasks, t)
	}
	if len(tasks) == 0 {
		return nil, fmt.Errorf("%w: no task in it", errEnvelope)
	}
	return tasks, nil
}

// refuseBody tells a newer format, which has the same mark with another number, from anything else.
func refuseBody(body string) error {
	mark, _, found := strings.Cut(body[:min(len(body), 8)], ".")
	if number, ok := strings.CutPrefix(mark, envelopeMarkFamily); found && ok && isNumber(number) {
		return fmt.Errorf("%w: %q", errEnvelopeVersion, mark)
	}
	return errEnvelope
}

func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
