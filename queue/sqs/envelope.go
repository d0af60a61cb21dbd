package sqs

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/task"
)

// The body of a message that only Kinesin reads is text: a mark with the number of the format, and then
// a seal and protobuf fields in URL-safe base64 without padding. Nothing behind the seal is read before it
// was checked. Each task is one field of bytes, in the codec's encoding. Readers skip unknown fields, so
// a release reads a new field before the next one writes it. A field that an older reader must not skip
// raises the number.
const (
	envelopeMark           = "k2."
	envelopeMarkFamily     = "k"
	envelopeNumber         = 2
	fieldTask              = protowire.Number(1)
	envelopeBytesPerField  = 6       // tag and length, at most
	envelopeDecodedTaskMax = 1 << 10 // tasks in one message
)

// Why a body cannot be decoded.
var (
	// errEnvelopeVersion says that a newer release wrote the body.
	errEnvelopeVersion = errors.New("message of a newer format")
	// errEnvelope says that a sealed body cannot be decoded.
	errEnvelope = errors.New("message cannot be decoded")
	// errUnsealed says that no server of this installation wrote the body for this queue.
	errUnsealed = errors.New("message is not sealed")
)

// Codec encodes a task: the store's encoding of its row.
type Codec struct {
	Append func(dst []byte, t *task.Task) []byte
	Decode func(row []byte) (task.Task, error)
	Newer  error // the error of Decode for a row that a newer release wrote
}

var bodyEncoding = base64.RawURLEncoding

// bodyBytes returns the length of a body with so many bytes of fields.
func bodyBytes(fields int) int {
	return len(envelopeMark) + bodyEncoding.EncodedLen(task.SealBytes+fields)
}

// taskBytesUsual is a size that few encoded tasks exceed.
const taskBytesUsual = 256

// field returns a task as a field of a body.
func (c *Codec) field(t *task.Task) []byte {
	row := c.Append(make([]byte, 0, taskBytesUsual), t)
	field := protowire.AppendTag(make([]byte, 0, len(row)+envelopeBytesPerField), fieldTask, protowire.BytesType)
	return protowire.AppendBytes(field, row)
}

// encodeBody makes the body of a message to a queue from fields.
func encodeBody(s task.Seal, queue string, fields ...[]byte) string {
	raw := s.Seal(queue, fields...)
	body := make([]byte, bodyBytes(len(raw)-task.SealBytes))
	copy(body, envelopeMark)
	bodyEncoding.Encode(body[len(envelopeMark):], raw)
	return string(body)
}

// decodeBody decodes the tasks of a body that came from a queue. Their payloads share memory.
func (c *Codec) decodeBody(ctx context.Context, s task.Seal, queue, body string) ([]task.Task, error) {
	text, ok := strings.CutPrefix(body, envelopeMark)
	if !ok {
		return nil, refuseBody(body)
	}
	sealed, err := bodyEncoding.Strict().DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsealed, err)
	}
	raw, err := s.Open(ctx, queue, sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnsealed, err)
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

// refuseBody returns errEnvelopeVersion for the mark of a later format, and errUnsealed for anything else.
// The first format had no seal.
func refuseBody(body string) error {
	mark, _, found := strings.Cut(body[:min(len(body), 8)], ".")
	number, err := strconv.ParseUint(strings.TrimPrefix(mark, envelopeMarkFamily), 10, 32)
	if found && err == nil && strings.HasPrefix(mark, envelopeMarkFamily) && number > envelopeNumber {
		return fmt.Errorf("%w: %q", errEnvelopeVersion, mark)
	}
	return errUnsealed
}
