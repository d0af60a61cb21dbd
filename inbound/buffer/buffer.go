// Package buffer is the seam to the inbound buffer: a durable queue between the callers and the store. The
// store is written at a steady rate from it. Its tasks are acknowledged, so a message is deleted only when
// its tasks are in the store. Messages are opaque here; package api/envelope defines them. The suite in
// buffertest checks implementers.
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
	// ErrClosed refuses calls after Close; a waiting Receive returns it.
	ErrClosed = errors.New("buffer is closed")
)

// Limits of the seam.
const (
	// BatchMax bounds the messages of one request.
	BatchMax = 10
	// DelayMax bounds the delay of a sent message.
	DelayMax = 15 * time.Minute
	// RetryMax bounds how long Retry hides a message.
	RetryMax = 12 * time.Hour
)

// Outgoing is a message to send.
type Outgoing struct {
	Body  string        // ASCII text
	Delay time.Duration // hides it; rounded up to whole seconds; at most DelayMax
}

// Message is a received message.
type Message struct {
	Body string
	// Receives is how often the message was received as far as the buffer knows, this time included.
	Receives int
	// Receipt is the driver's handle of this delivery.
	Receipt string
}

// Buffer is implemented by each kind of buffer. Delivery is at least once and in no promised order. All
// methods are safe for concurrent use.
type Buffer interface {
	// Send puts messages into the buffer: any number, best a multiple of BatchMax, or as many as fit into one
	// request. results[i] is nil when messages[i] is durable there, and ErrTooLarge when it is refused; after
	// any other error it may or may not be there.
	Send(ctx context.Context, messages []Outgoing) (results []error)
	// Receive waits a while for messages and returns up to limit of them (at most BatchMax), or none. A
	// received message is hidden until it is deleted, or until its visibility timeout, or the time that
	// Retry set, has passed.
	Receive(ctx context.Context, limit int) ([]Message, error)
	// Delete removes received messages for good. After an error some may be received again.
	Delete(ctx context.Context, messages []Message) error
	// Retry makes received messages visible again after a time of up to RetryMax.
	Retry(ctx context.Context, messages []Message, after time.Duration) error
	// BodyBytesMax returns the bound of a body, and of all bodies of one request.
	BodyBytesMax() int
	// Depth returns about how many messages are visible, and how many are hidden: received, or delayed.
	Depth(ctx context.Context) (visible, hidden int64, err error)
	// Close ends a waiting Receive. Later calls fail.
	Close() error
}
