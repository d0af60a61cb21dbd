package sqsinbound

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const horizonMax = 100 * 365 * 24 * time.Hour // far beyond any server's bound, and within that of an id

// accept checks an item as far as a client can, and issues its id.
func (c *Client) accept(ctx context.Context, item *sdk.Item) (*kinesinv1.BufferedTask, task.Instant, error) {
	now := c.clock.Now()
	if item.Key != "" {
		return nil, 0, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
			"key %q: only the store can say whether a key is taken, so schedule a task with a key through an sdk.Client", item.Key)
	}
	if item.LimitKey != "" {
		return nil, 0, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
			"limit key %q: the task's id has to say which shard has the key, so schedule a task with a limit key through an sdk.Client", item.LimitKey)
	}
	if len(item.Then)+len(item.Else)+len(item.Finally) > 0 {
		return nil, 0, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
			"then, else and finally: nobody in the inbound queue could check the right to schedule what follows, nor create it if the task is cancelled there, so schedule a task that others follow through an sdk.Client")
	}
	due, err := dueOf(item, now)
	if err != nil {
		return nil, 0, err
	}
	wire := sdkconfig.WireOf(item)
	if err := check(item, wire, due); err != nil {
		return nil, 0, err
	}
	made := task.NewID(now, c.clock.Uint64(), c.clock.Uint64())
	token := task.InboundToken{ID: made, Due: due, Lambda: item.Lambda, Priority: item.Priority, Sender: c.sealer.Sender()}
	id, err := c.sealer.Seal(token)
	if err != nil {
		return nil, 0, invalid("%v", err)
	}
	if from := trace.SpanContextFromContext(ctx); wire.Traceparent == "" && from.IsValid() {
		wire.Traceparent = fmt.Sprintf("00-%s-%s-%s", from.TraceID(), from.SpanID(), from.TraceFlags())
	}
	if c.codec != nil {
		wire.Payload, err = c.codec.Encode(ctx, sdk.PayloadContext{Lambda: item.Lambda, Task: token.TaskID()}, item.Payload)
		if err != nil {
			return nil, 0, fmt.Errorf("encode the payload of a %s task: %w", item.Lambda, err)
		}
	}
	wire.Due, wire.Delay, wire.OnConflict = 0, 0, "" // its id has the time
	t := &kinesinv1.BufferedTask{Id: id, Accepted: int64(now), Item: wire}
	if !envelope.Fits(c.sealer, t, c.messageBytesMax) {
		return nil, 0, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE,
			"payload of %d bytes: a message of %d bytes has room for about three quarters of that; schedule it through an sdk.Client, or see WithMessageBytesMax",
			len(wire.Payload), c.messageBytesMax)
	}
	return t, due, nil
}

// dueOf returns the due time of an item in whole milliseconds, by this machine's clock. The past means now.
func dueOf(item *sdk.Item, now task.Instant) (task.Instant, error) {
	due := now.Add(max(item.In, 0))
	if !item.At.IsZero() {
		due = task.InstantOf(item.At)
	}
	switch {
	case item.In > horizonMax || due > now.Add(horizonMax):
		return 0, invalid("due time is too far ahead")
	case due <= now:
		return task.FromMillis(now.Millis()), nil // due already, so rounding down does not make it early
	}
	return due.CeilMillis(), nil
}

// check refuses items that every server would refuse. The sealer checks the names.
func check(item *sdk.Item, wire *kinesinv1.ScheduleItem, due task.Instant) error {
	if item.MaxAttempts < 0 || item.MaxAttempts > task.AttemptsMax {
		return invalid("max attempts %d: want 1 to %d", item.MaxAttempts, task.AttemptsMax)
	}
	if before := wire.StartBefore; before != 0 && before <= int64(due) {
		return invalid("start before %s is not after the due time %s: the task could never start",
			item.StartBefore.UTC().Format(time.RFC3339Nano), due.Time().UTC().Format(time.RFC3339Nano))
	}
	o := task.Overrides{ // here, since the wire has no nanoseconds
		MaxAttempts: uint32(item.MaxAttempts), Timeout: item.Timeout, BackoffMin: item.BackoffMin, BackoffMax: item.BackoffMax,
	}
	_, err := task.TagsOf(item.Tags)
	if err = cmp.Or(err, o.Validate(), api.CheckItem(wire)); err != nil {
		return invalid("%v", err)
	}
	return nil
}
