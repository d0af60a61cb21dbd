package sqsinbound

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const (
	collectionBytesMax = 128                        // the server's bound
	horizonMax         = 100 * 365 * 24 * time.Hour // far beyond any server's bound, and within that of an id
)

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
	if err := check(item, due); err != nil {
		return nil, 0, err
	}
	made := task.NewID(now, c.clock.Uint64(), c.clock.Uint64())
	token := task.InboundToken{ID: made, Due: due, Lambda: item.Lambda, Priority: item.Priority, Sender: c.sealer.Sender()}
	id, err := c.sealer.Seal(token)
	if err != nil {
		return nil, 0, invalid("%v", err)
	}
	traceparent := item.Traceparent
	if from := trace.SpanContextFromContext(ctx); traceparent == "" && from.IsValid() {
		traceparent = fmt.Sprintf("00-%s-%s-%s", from.TraceID(), from.SpanID(), from.TraceFlags())
	}
	payload := item.Payload
	if c.codec != nil {
		payload, err = c.codec.Encode(ctx, sdk.PayloadContext{Lambda: item.Lambda, Task: token.TaskID()}, payload)
		if err != nil {
			return nil, 0, fmt.Errorf("encode the payload of a %s task: %w", item.Lambda, err)
		}
	}
	t := &kinesinv1.BufferedTask{Id: id, Accepted: int64(now), Item: &kinesinv1.ScheduleItem{
		Lambda: item.Lambda, Priority: item.Priority, Collection: item.Collection, Payload: payload,
		MaxAttempts: uint32(item.MaxAttempts), Timeout: item.Timeout.Microseconds(),
		BackoffMin: item.BackoffMin.Microseconds(), BackoffMax: item.BackoffMax.Microseconds(),
		Traceparent: traceparent, Tags: item.Tags, StartBefore: startBefore(item),
	}}
	if !envelope.Fits(c.sealer, t, c.messageBytesMax) {
		return nil, 0, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE,
			"payload of %d bytes: a message of %d bytes has room for about three quarters of that; schedule it through an sdk.Client, or see WithMessageBytesMax",
			len(payload), c.messageBytesMax)
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

// startBefore returns when an item expires, in microseconds; 0: as its lambda says.
func startBefore(item *sdk.Item) int64 {
	if item.StartBefore.IsZero() {
		return 0
	}
	return max(item.StartBefore.UnixMicro(), 1)
}

// check refuses items that every server would refuse. The sealer checks the names.
func check(item *sdk.Item, due task.Instant) error {
	if n := len(item.Collection); n > collectionBytesMax || !utf8.ValidString(item.Collection) || strings.ContainsFunc(item.Collection, unicode.IsControl) {
		return invalid("collection of %d bytes: want at most %d bytes of UTF-8 text without control characters", n, collectionBytesMax)
	}
	if item.MaxAttempts < 0 || item.MaxAttempts > task.AttemptsMax {
		return invalid("max attempts %d: want 1 to %d", item.MaxAttempts, task.AttemptsMax)
	}
	if before := startBefore(item); before != 0 && before <= int64(due) {
		return invalid("start before %s is not after the due time %s: the task could never start",
			item.StartBefore.UTC().Format(time.RFC3339Nano), due.Time().UTC().Format(time.RFC3339Nano))
	}
	if _, err := task.TagsOf(item.Tags); err != nil {
		return invalid("%v", err)
	}
	if err := task.CheckTraceparent(item.Traceparent); err != nil {
		return invalid("%v", err)
	}
	o := task.Overrides{
		MaxAttempts: uint32(item.MaxAttempts), Timeout: item.Timeout, BackoffMin: item.BackoffMin, BackoffMax: item.BackoffMax,
	}
	if err := o.Validate(); err != nil {
		return invalid("%v", err)
	}
	return nil
}
