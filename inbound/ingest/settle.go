package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
)

const (
	// unknownTryAfter is when a task of an unknown lambda comes again: by then the catalog was refreshed.
	unknownTryAfter = 2 * catalog.RefreshEvery
	fullRetryAfter  = buffer.DelayMax // of a message that there is no room to reject
)

// retryBackoff is for messages that the store did not take.
var retryBackoff = backoff.Policy{Min: time.Second, Max: retryAfterMax}

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

// finish deletes the messages that are done with and makes the others come again.
func (in *Ingest) finish(ctx context.Context, all []message, deletes *gather.Gatherer[buffer.Message]) error {
	ctx, cancel := clock.Within(ctx, in.Clock, settleMax)
	defer cancel()
	var now, batched []buffer.Message
	again := map[time.Duration][]buffer.Message{} // by whole seconds, so that few requests do
	for i := range all {
		m := &all[i]
		switch {
		case m.again > 0:
			after := max(m.again.Truncate(time.Second), time.Second)
			again[after] = append(again[after], m.Message)
		case m.redeliverable:
			batched = append(batched, m.Message)
		case m.ignored != "":
		default:
			now = append(now, m.Message)
		}
	}
	var errs []error
	if len(now) > 0 {
		errs = append(errs, in.Buffer.Delete(ctx, append(now, batched...))) // there is a request anyway
	} else {
		deletes.Put(batched...)
	}
	for after, messages := range again {
		errs = append(errs, in.Buffer.Retry(ctx, messages, after))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("settle messages of the inbound buffer: %w", err) // they come again when their visibility ends
	}
	return nil
}

const (
	settleMax = 20 * time.Second // bounds requests that delete messages or make them come again
	// deleteLinger is how long messages wait to be deleted together. They stay hidden for far longer
	// (hideFor, less hideEvery).
	deleteLinger   = time.Second
	deleteSendsMax = 4
)

// newDeletes returns what deletes the messages of several receives in one request. It drops errors: a message that is
// not deleted comes again, and the buffer counts its requests.
func (in *Ingest) newDeletes() *gather.Gatherer[buffer.Message] {
	return gather.New(gather.Config[buffer.Message]{
		Clock: in.Clock, ItemsMax: buffer.BatchMax, SendsMax: deleteSendsMax, Linger: deleteLinger,
		Send: func(ctx context.Context, messages []buffer.Message) []error {
			ctx, cancel := clock.Within(ctx, in.Clock, settleMax)
			defer cancel()
			return slices.Repeat([]error{in.Buffer.Delete(ctx, messages)}, len(messages))
		},
	})
}
