// Package ingest takes the tasks of the inbound buffer to the store, at a steady rate. It rejects messages
// and tasks that it can never take, keeps them for a person, and serves the InboundService of the wire
// contract, with which they are read, retried and deleted. It stores tasks by package intake, as inbound
// does. Nothing leaves the buffer before it is in the store or kept as rejected.
package ingest

import (
	"cmp"
	"context"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// Defaults of Config.
const (
	RateDefault        = 2000
	ConcurrencyDefault = 4
)

// Why messages stay in the buffer for now; see Hooks.Left.
const (
	LeftStore   = "store"          // the store did not take it
	LeftUnknown = "unknown_lambda" // its lambda is not known yet
	LeftFull    = "aside_full"     // it is to be rejected, and there is no room for more
	// LeftSenderFull: it is to be rejected, and named senders have taken their part of the room.
	LeftSenderFull = "sender_full"

	// The others are left to the buffer's dead-letter queue: nobody vouches for them, or a sender who may not
	// take room of others.

	LeftUnsealed = "unsealed"       // it was not sealed with an inbound key
	LeftKeyGone  = "rotated_key"    // it was sealed with an inbound key that was rotated out
	LeftRevoked  = "revoked_sender" // it was sealed with the inbound key of a sender that was revoked
	LeftSender   = "sender_lambda"  // it has a task that is outside the lambdas of its sender

	LeftSenderUnreadable = "sender_unreadable" // a sender sealed it, and it is no envelope, or of a newer version
)

// Lefts lists why messages stay in the buffer.
func Lefts() []string {
	return []string{LeftStore, LeftUnknown, LeftFull, LeftSenderFull, LeftUnsealed, LeftKeyGone, LeftRevoked, LeftSender, LeftSenderUnreadable}
}

// Config is what an Ingest is made of.
type Config struct {
	*intake.Intake
	// Buffer holds what was accepted and is not in the store; nil: there is none.
	Buffer   buffer.Buffer
	Backlog  *Backlog
	Rejected *Rejected
	Hooks    Hooks

	// Rate bounds how many tasks a second are taken to the store, on average; a message is taken in one
	// piece. 0: RateDefault; negative: no bound.
	Rate float64
	// Concurrency is how many receives run at a time. 0: ConcurrencyDefault.
	Concurrency int
}

// Hooks observe an Ingest. A nil hook is not called.
type Hooks struct {
	// Consumed: n tasks of the buffer are in the store, or were there already; the oldest was accepted that
	// long ago.
	Consumed func(n int, age time.Duration)
	// Stored: one of them is in the store, with its lambda; it was in the buffer since it was created.
	Stored func(t *task.Task, l *catalog.Entry)
	// Left: n messages stay in the buffer for now, for one of Lefts.
	Left func(why string, n int)
	// Paused: the buffer or the store failed, and consuming pauses that long.
	Paused func(ctx context.Context, err error, pause time.Duration)
	// Ignored: a message is left to the buffer's dead-letter queue for one of Lefts.
	Ignored func(ctx context.Context, why string, err error)
	// Ended: tasks ended that were still in the buffer.
	Ended func(ids []task.ID)
}

// Ingest consumes the buffer. It is safe for concurrent use.
type Ingest struct{ Config }

// New returns an Ingest.
func New(c Config) *Ingest {
	c.Rate = cmp.Or(c.Rate, RateDefault)
	c.Concurrency = cmp.Or(max(c.Concurrency, 0), ConcurrencyDefault)
	return &Ingest{c}
}
