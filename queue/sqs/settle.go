package sqs

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// returned is a message that others, or we, are to see again.
type returned struct {
	handle string
	after  time.Duration
}

// seconds rounds up: a message is not returned early.
func (r *returned) seconds() int32 {
	return int32((min(max(r.after, 0), visibilityMax) + time.Second - 1) / time.Second)
}

// deleteHandles deletes messages, up to ten. What fails for good comes again and is refused at the claim.
func (l *lane) deleteHandles(handles []string) {
	d := l.driver
	for try := 1; ; try++ {
		entries := make([]types.DeleteMessageBatchRequestEntry, len(handles))
		for i := range handles {
			entries[i] = types.DeleteMessageBatchRequestEntry{Id: &entryIDs[i], ReceiptHandle: &handles[i]}
		}
		r := Request{Queue: l.name, Action: ActionDelete, Entries: len(entries)}
		out, err := requestTo(d.ctx, d, r, func(ctx context.Context, url *string) (*sqs.DeleteMessageBatchOutput, error) {
			return d.api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: url, Entries: entries})
		})
		var again []int
		if err == nil {
			again = l.refusedFor(out.Failed, ActionDelete, len(handles))
		}
		if !l.tryAgain(&again, err, try, len(handles), ActionDelete) {
			return
		}
		handles = pick(handles, again)
	}
}

// changeVisibilities hides messages for longer, or no longer, up to ten. What fails for good is seen
// again when its visibility timeout ends.
func (l *lane) changeVisibilities(items []returned) {
	d := l.driver
	items = latest(items)
	for try := 1; ; try++ {
		entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(items))
		for i := range items {
			entries[i] = types.ChangeMessageVisibilityBatchRequestEntry{
				Id: &entryIDs[i], ReceiptHandle: &items[i].handle, VisibilityTimeout: items[i].seconds(),
			}
		}
		r := Request{Queue: l.name, Action: ActionVisibility, Entries: len(entries)}
		out, err := requestTo(d.ctx, d, r, func(ctx context.Context, url *string) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
			return d.api.ChangeMessageVisibilityBatch(ctx, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: entries})
		})
		var again []int
		if err == nil {
			again = l.refusedFor(out.Failed, ActionVisibility, len(items))
		}
		if !l.tryAgain(&again, err, try, len(items), ActionVisibility) {
			return
		}
		items = pick(items, again)
	}
}

// latest keeps of several changes of one message the last: SQS may carry them out in any order.
func latest(items []returned) []returned {
	at := make(map[string]int, len(items))
	kept := make([]returned, 0, len(items))
	for _, item := range items {
		if i, twice := at[item.handle]; twice {
			kept[i] = item
			continue
		}
		at[item.handle] = len(kept)
		kept = append(kept, item)
	}
	return kept
}

// refusedFor are the entries that SQS could not serve for the moment. Those that it never will, as a receipt that has
// expired, are only counted: their messages are others' already.
func (l *lane) refusedFor(failed []types.BatchResultErrorEntry, action Action, entries int) []int {
	var again []int
	for i := range failed {
		l.driver.observeFailed(l.name, action, aws.ToString(failed[i].Code))
		if k, ok := entryOf(failed[i].Id, entries); ok && !failed[i].SenderFault {
			again = append(again, k)
		}
	}
	return again
}

// tryAgain waits before the next try and says whether there is to be one. After a request that failed it is for all entries.
func (l *lane) tryAgain(again *[]int, err error, try, entries int, action Action) bool {
	d := l.driver
	if err == nil && len(*again) == 0 {
		return false
	}
	if err != nil {
		*again = nil
		for i := range entries {
			*again = append(*again, i)
		}
	}
	if (err == nil || helpsToRetry(err)) && d.backOff(d.ctx, try) {
		return true
	}
	if err != nil {
		d.Log.WarnContext(d.ctx, "messages not settled, they are seen again later", slog.String("queue", l.name),
			slog.String("action", string(action)), slog.Int("messages", entries), slog.Any("error", err))
	}
	return false
}

func pick[T any](items []T, at []int) []T {
	picked := make([]T, len(at))
	for i, k := range at {
		picked[i] = items[k]
	}
	return picked
}
