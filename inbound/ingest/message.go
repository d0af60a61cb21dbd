package ingest

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// unknownTryAfter is when a task of an unknown lambda comes again: by then the catalog was refreshed.
	unknownTryAfter = 2 * catalog.RefreshEvery
	fullRetryAfter  = buffer.DelayMax // of a message that there is no room to reject

	// Messages that arrive while nobody receives share the next receive. Schedule puts nothing into the
	// buffer that is due sooner than Near, so there is time; but not after something that is due soon, as
	// clients may send themselves, nor after something old, since more of it may wait.
	receivePause     = 500 * time.Millisecond // after a receive that was not full
	receivePauseSoon = 20 * time.Millisecond
	nearPauses       = 10 // a pause lasts at most that part of Near
	soonMax          = 2 * time.Second
	freshMax         = 2 * time.Second
)

// retryBackoff is for messages that the store did not take.
var retryBackoff = backoff.Policy{Min: time.Second, Max: retryAfterMax}

// message is a received message.
type message struct {
	buffer.Message
	broken error // why it could not be opened
	tries  int   // how often it was received, this time included
	tasks  int

	again         time.Duration // when it is to come again; 0: it is done with
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

// ignoredBy returns which of Lefts the error of a message is that is left to the dead-letter queue; empty for
// one that is kept as rejected. A sealed message that nobody can read is left, because a vendor could
// otherwise fill the room for rejected messages of everybody.
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

// senderOf returns the sender that issued the id of a task; empty: a server, or who has the key of all
// lambdas. A task of a sender has no other id, also when a server sends it again.
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
		if accepted := task.Instant(arrivals[i].AcceptedMicros); at == 0 || accepted < at {
			at = accepted
		}
	}
	return at
}

// pauseAfter returns for how long to receive nothing after a receive that brought these.
func (in *Ingest) pauseAfter(arrivals []arrival) time.Duration {
	now := in.Clock.Now()
	for i := range arrivals {
		a := &arrivals[i]
		if a.due <= now.Add(soonMax) || now.Sub(task.Instant(a.AcceptedMicros)) > freshMax {
			return receivePauseSoon
		}
	}
	return max(receivePauseSoon, min(receivePause, in.Near/nearPauses))
}

// settle rejects what is to be rejected and decides whether the message comes again. Its error is a failure
// of the store.
func (in *Ingest) settle(ctx context.Context, m *message, arrivals []arrival, results []result) error {
	if m.ignored != "" {
		in.ignore(ctx, m.ignored, m.broken)
		return nil
	}
	if m.broken != nil {
		_, err := in.reject(ctx, m, brokenMessage(m.Body, m.broken), m.broken)
		return err
	}
	var failure error
	var rest []*kinesinv1.BufferedTask
	m.redeliverable = true
	for i, r := range results {
		left := true
		m.redeliverable = m.redeliverable && r.outcome == stored && arrivals[i].redeliverable
		switch r.outcome {
		case stored:
			left = false
		case rejected:
			var err error
			left, err = in.reject(ctx, m, in.rejectedOf(ctx, arrivals[i].BufferedTask, r), r.err)
			failure = cmp.Or(failure, err)
		case unknownLambda:
			in.leave(m, LeftUnknown, unknownTryAfter)
		case retryLater:
			failure = cmp.Or(failure, r.err)
			after := retryBackoff.Pause(in.Clock, m.tries)
			in.Backlog.left(after)
			in.leave(m, LeftStore, after)
		}
		if left {
			rest = append(rest, arrivals[i].BufferedTask)
		}
	}
	if len(rest) > 0 && len(rest) < len(results) {
		in.splitOff(ctx, m, rest)
	}
	return failure
}

// reject keeps a message or a task of one, so that the message need not come again; left says that it must.
// The error is a failure of the store.
func (in *Ingest) reject(ctx context.Context, m *message, row *rejectedRow, why error) (left bool, err error) {
	err = in.Rejected.put(ctx, row)
	switch {
	case errors.Is(err, errFull):
		in.leave(m, LeftFull, fullRetryAfter)
		return true, nil
	case errors.Is(err, errSenderFull):
		in.leave(m, LeftSenderFull, fullRetryAfter)
		return true, nil
	case err != nil:
		in.leave(m, LeftStore, retryBackoff.Pause(in.Clock, m.tries))
		return true, err
	}
	in.Rejected.tell(ctx, row, why)
	return false, nil
}

// ignore leaves a message alone that anybody may have sent, or that its sender may not send: it would
// otherwise take room from what users have to see. The buffer shows it again in its own time, and moves it to
// its dead-letter queue in the end.
func (in *Ingest) ignore(ctx context.Context, why string, err error) {
	if in.Hooks.Left != nil {
		in.Hooks.Left(why, 1)
	}
	if in.Hooks.Ignored != nil {
		in.Hooks.Ignored(ctx, why, err)
	}
}

// leave has a message come again after a while.
func (in *Ingest) leave(m *message, why string, after time.Duration) {
	if m.again == 0 && in.Hooks.Left != nil {
		in.Hooks.Left(why, 1)
	}
	m.again = max(m.again, after)
}

// splitOff sends the rest of a message as a message of its own, so that the stored tasks are not taken in
// again with it. If that fails all of them come again, which does no harm.
func (in *Ingest) splitOff(ctx context.Context, m *message, rest []*kinesinv1.BufferedTask) {
	body, err := envelope.Seal(in.InboundSealer, rest, uint32(m.tries))
	if err != nil {
		return
	}
	ctx, cancel := clock.Within(ctx, in.Clock, settleMax)
	defer cancel()
	sent := in.Buffer.Send(ctx, []buffer.Outgoing{{Body: body, Delay: min(m.again, buffer.DelayMax)}})
	if len(sent) > 0 && sent[0] == nil {
		m.again = 0
	}
}
