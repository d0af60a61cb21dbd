package sqs

import (
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Constants for tests.
const (
	HoldMax        = holdMax
	Visibility     = visibility
	DeleteLinger   = deleteLinger
	RequestTimeout = requestTimeout
)

// IsText reports whether a payload is sent as it is.
func IsText(payload []byte) bool { return isText(payload) }

// StoreCodec is the codec of servers.
var StoreCodec = Codec{store.AppendTask, store.DecodeTask, store.ErrVersion}

// Encode encodes a body.
func Encode(messages []queue.Message) string {
	fields := make([][]byte, len(messages))
	for i := range messages {
		fields[i] = StoreCodec.field(&messages[i].Task)
	}
	return encodeBody(fields...)
}

// Decode decodes a body.
func Decode(body string) ([]task.Task, error) { return StoreCodec.decodeBody(body) }

// Errors of Decode.
var (
	ErrEnvelope        = errEnvelope
	ErrEnvelopeVersion = errEnvelopeVersion
)
