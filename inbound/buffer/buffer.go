// Package buffer is the seam to the inbound buffer: a durable queue between those who accept tasks and
// the store, which takes load off the store by being emptied at a steady rate. What is in it is
// acknowledged, so it is deleted only when it is in the store. Its messages are opaque here
// (package api/envelope has their form). The suite in buffertest says what an implementer owes.
package buffer

import (
	"context"
	"errors"
	"time"
)

// Sentinels of the seam.
var (
	// ErrTooLarge refuses a body above BodyBytesMax.
	ErrTooLarge = errors.New("body is too large")
	// ErrClosed refuses calls after Close, and ends a waiting Receive.
	ErrClosed = errors.New("buffer is closed")
)

// Limits of the seam.
const (
	// BatchMax is how many messages one request sends, receives or deletes at most.
	BatchMax = 10
	// DelayMax is how long Send holds a message back at most.
	DelayMax = 15 * time.Minute
	// RetryMax is how long Retry hides a message at most.
	RetryMax = 12 * time.Hour
)

// Outgoing is a message to send.
type Outgoing struct {
	Body  string        // ASCII text
	Delay time.Duration // not to be received before; whole seconds, rounded up; at most DelayMax
}

// Message is a received message.
type Message struct {
	Body string
	// Receives is how often the message was received, this time included, as far as the buffer knows.
	Receives int
	// Receipt is the driver's handle of this delivery.
	Receipt string
}

// Buffer is what an implementer writes. Delivery is at least once and in no promised order. All methods are
// safe for concurrent use.
type Buffer interface {
	// Send puts messages in the buffer: any number, best a multiple of BatchMax, or what fits one request.
	// results[i] is nil when messages[i] is durable there; ErrTooLarge; any other error: it may or may not be
	// there.
	Send(ctx context.Context, messages []Outgoing) (results []error)
	// Receive waits a while for messages and returns up to limit of them (at most BatchMax), or none. A
	// received message is invisible until it is deleted, or until Retry's time or else the visibility timeout
	// is over.
	Receive(ctx context.Context, limit int) ([]Message, error)
	// Delete removes received messages for good. After an error some may come again.
	Delete(ctx context.Context, messages []Message) error
	// Retry makes received messages visible again after a while of up to RetryMax.
	Retry(ctx context.Context, messages []Message, after time.Duration) error
	// BodyBytesMax is how large a body may be, and all bodies of one request.
	BodyBytesMax() int
	// Close ends a waiting Receive. Calls that follow fail.
	Close() error
}
