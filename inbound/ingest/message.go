package ingest

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/task"
)

// message is a received message.
type message struct {
	buffer.Message
	broken error // why it could not be opened
	tries  int   // how often it was received, this time included
	tasks  int

	again         time.Duration // after how long it is to come again; 0: it is done with
	redeliverable bool          // it would do no harm if it came again soon
	ignored       string        // left to the dead-letter queue, for one of Lefts: neither deleted nor sent again
}

// open opens messages and returns the arrivals in all of them, in order.
func (in *Ingest) open(ctx context.Context, messages []buffer.Message) (all []message, arrivals []arrival) {
	all = make([]message, len(messages))
	for i, m := range messages {
		all[i].Message = m
		e, sender, err := envelope.OpenFrom(ctx, in.InboundSealer, m.Body)
		if err != nil {
			all[i].broken, all[i].ignored = err, ignoredBy(err, sender)
			continue
		}
		all[i].tries, all[i].tasks = m.Receives, len(e.Tasks)
		if sender == "" { // a server counted; a sender may say anything
			all[i].tries += int(e.Tries)
		}
		for _, t := range e.Tasks {
			arrivals = append(arrivals, arrival{BufferedTask: t, tries: all[i].tries})
		}
	}
	return all, arrivals
}

// ignoredBy returns why a message that could not be opened is left to the dead-letter queue, one of Lefts; empty: it is kept
// as rejected. A message of a sender that nobody can read is left, because the sender could otherwise fill the room for
// rejected messages of everybody.
func ignoredBy(err error, sender string) string {
	switch {
	case errors.Is(err, envelope.ErrSeal):
		return LeftUnsealed
	case errors.Is(err, task.ErrKeyGone):
		return LeftKeyGone
	case errors.Is(err, task.ErrSenderRevoked):
		return LeftRevoked
	case errors.Is(err, envelope.ErrSender):
		return LeftSender
	case sender != "":
		return LeftSenderUnreadable
	}
	return ""
}

// senderOf returns the sender that issued the id of a task; empty: a server did, or a client with the key of all lambdas. A
// task of a sender has no other id, also when a server sends it again.
func (in *Ingest) senderOf(ctx context.Context, t *kinesinv1.BufferedTask) string {
	if in.InboundSealer == nil || !task.IsInboundToken(t.Id) {
		return ""
	}
	token, err := in.InboundSealer.Open(ctx, t.Id)
	if err != nil {
		return ""
	}
	return token.Sender
}

// rejectedOf returns the row of a task of a message, with its sender.
func (in *Ingest) rejectedOf(ctx context.Context, t *kinesinv1.BufferedTask, r result) *rejectedRow {
	row := rejectedTask(t, r)
	row.Sender = in.senderOf(ctx, t)
	return row
}

// oldest returns when the oldest of arrivals was accepted; 0 when there are none.
func oldest(arrivals []arrival) (at task.Instant) {
	for i := range arrivals {
		if accepted := task.Instant(arrivals[i].Accepted); at == 0 || accepted < at {
			at = accepted
		}
	}
	return at
}
