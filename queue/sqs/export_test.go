package sqs

import (
	"bytes"
	"context"

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

// TestSealer is the sealer of the drivers of these tests, and TestQueue the queue that Encode seals for.
var TestSealer = SealerOf(2, 0)

const TestQueue = "test-lambda7-high"

// SealerOf returns the sealer of a ring with one key, of this number and a secret of these bytes.
func SealerOf(number uint8, secret byte) task.Seal {
	ring, err := task.NewKeyring(task.Ring{Keys: []task.Key{{Number: number, Secret: bytes.Repeat([]byte{secret}, task.TokenKeyBytes)}}, Seals: number})
	if err != nil {
		panic(err)
	}
	return ring.Messages()
}

// Sealed returns a body with fields that are sealed as Encode seals them.
func Sealed(fields []byte) string { return encodeBody(TestSealer, TestQueue, fields) }

// SealedBefore returns the body of a message that was sealed with a key that TestSealer has no more.
func SealedBefore(fields []byte) string {
	return encodeBody(SealerOf(1, 0), TestQueue, fields)
}

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
	return encodeBody(TestSealer, TestQueue, fields...)
}

// Decode decodes a body.
func Decode(body string) ([]task.Task, error) {
	return StoreCodec.decodeBody(context.Background(), TestSealer, TestQueue, body)
}

// Errors of Decode.
var (
	ErrEnvelope        = errEnvelope
	ErrEnvelopeVersion = errEnvelopeVersion
	ErrUnsealed        = errUnsealed
)
