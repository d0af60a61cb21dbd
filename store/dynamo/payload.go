package dynamo

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Payload rows expire by themselves, since deleting one, or only marking it, costs as much as writing it. A
// payload is written with an expiry that is later than most tasks need; a write which shows that its task
// lasts longer extends it first.
const (
	// payloadKeep is how long a payload lasts at least after its task was due, or created if that is later.
	payloadKeep = 45 * 24 * time.Hour
	// payloadSlack covers clocks and the time between the rows of one Schedule call.
	payloadSlack = 24 * time.Hour
	// nextWriteAfter is how long after its wake-up a live task is written again at the latest.
	nextWriteAfter = 14 * 24 * time.Hour
	// overdueAfter is how late a task has to be before a scan extends its payload: no write shows that it
	// lasts.
	overdueAfter = 14 * 24 * time.Hour
	// overdueEvery is how often a scan looks at the payload of one task.
	overdueEvery = 24 * time.Hour
	// overdueMax bounds the payloads that a scan extends, and overdueKnownMax those that are remembered as extended.
	overdueMax      = 32
	overdueKnownMax = 16384
	// extendsMax bounds the payloads that one call extends at once.
	extendsMax = 16
)

// payloadExpiry returns when a payload that is written now expires. t is what PutPayload knows of its task:
// when it is due and, if ExpireAt is set, how long its ended row is kept.
func payloadExpiry(now task.Instant, t *task.Task) task.Instant {
	return max(now.Add(payloadKeep), t.Due.Add(payloadKeep), t.ExpireAt).Add(payloadSlack)
}

// payloadNeeded returns until when the task in a write may need its payload; ok is false when the expiry that
// the payload was written with is surely late enough.
func payloadNeeded(op *store.Op) (until task.Instant, ok bool) {
	t := &op.Task
	switch op.Kind {
	case store.PutWakeup, store.ReplaceWakeup, store.PutTask, store.ReplaceTask:
	case store.DeleteWakeup, store.PutPayload, store.DeletePayload, store.PutControl, store.DeleteControl:
		return 0, false
	}
	if !t.PayloadStoredApart() && !t.Chain.FollowApart() {
		return 0, false
	}
	sure := max(t.Due, t.Created).Add(payloadKeep)
	if t.State.IsEnd() {
		return t.ExpireAt, t.ExpireAt > sure
	}
	until = max(t.Wake, t.Due).Add(nextWriteAfter)
	return until, until > sure || mayChangeDue(op)
}

// mayChangeDue reports whether a write may change the due time of its task. The payload was then written for another one.
func mayChangeDue(op *store.Op) bool {
	t := &op.Task
	return op.Kind == store.PutWakeup && t.WakeRow.Seq > 1 ||
		op.Kind == store.ReplaceTask && t.State == task.Scheduled && t.Wake == t.Due
}

// extendPayloads extends the payloads of tasks for as long as the rows that ops are about to write need them.
// It returns an error for each op, or nil when there was nothing to do.
func (c *client) extendPayloads(ctx context.Context, ops []store.Op) (errs []error) {
	var group errgroup.Group
	group.SetLimit(extendsMax)
	for i := range ops {
		until, ok := payloadNeeded(&ops[i])
		if !ok {
			continue
		}
		if errs == nil {
			errs = make([]error, len(ops))
		}
		t := &ops[i].Task
		group.Go(func() error {
			until := max(until, t.Due.Add(payloadKeep))
			if t.PayloadStoredApart() {
				errs[i] = c.extendPayload(ctx, taskKey(t.PayloadID()), until)
			}
			if t.Chain.FollowApart() {
				errs[i] = errors.Join(errs[i], c.extendPayload(ctx, taskKey(t.Chain.FollowID), until))
			}
			return nil
		})
	}
	_ = group.Wait() // errs has them
	return errs
}

// extendPayload makes a payload row last until an instant, if the row exists and expires before. Reading first is cheaper:
// a write is charged by the size of the row, even if its condition fails.
func (c *client) extendPayload(ctx context.Context, key item, until task.Instant) error {
	found, err := c.getItem(ctx, c.tables.payloads, key, attrExpire)
	if err != nil || found == nil || numberOf(found, attrExpire) >= expirySeconds(until) {
		return err
	}
	later := numberValue(expirySeconds(until.Add(payloadKeep)))
	err = c.retry(ctx, *c.tables.payloads, func() error {
		_, err := request(ctx, c, "UpdateItem", 1, &dynamodb.UpdateItemInput{
			TableName: c.tables.payloads, Key: key,
			UpdateExpression:          aws.String("SET " + attrExpire + "=:x"),
			ConditionExpression:       aws.String(attrExpire + "<:x"),
			ExpressionAttributeValues: item{":x": later},
		}, c.api.UpdateItem)
		return err
	})
	if _, done := errors.AsType[*types.ConditionalCheckFailedException](err); done { // extended by another, or deleted
		return nil
	}
	return err
}

// expirySeconds returns the TTL value of an instant: the first whole second that is not before it.
func expirySeconds(at task.Instant) uint64 {
	const second = 1_000_000
	if at > math.MaxInt64-second {
		at = math.MaxInt64 - second
	}
	return uint64(at+second-1) / second
}

// overduePayloads remembers when the payloads of overdue tasks were extended.
type overduePayloads struct {
	mu       sync.Mutex // guards extended
	extended map[task.ID]task.Instant
}

// extend extends, in the background, the payloads of the tasks in wake-up rows that are long overdue.
func (o *overduePayloads) extend(c *client, rows []task.Task) {
	now := c.cfg.Clock.Now()
	var late []task.ID
	for i := range rows {
		t := &rows[i]
		if now.Sub(t.WakeRow.At) < overdueAfter || len(late) == overdueMax {
			break // rows are in order of time
		}
		if t.PayloadStoredApart() && o.begin(t.PayloadID(), now) {
			late = append(late, t.PayloadID())
		}
	}
	if len(late) == 0 {
		return
	}
	c.running.Go(func() {
		for _, id := range late {
			if err := c.extendPayload(c.base, taskKey(id), now.Add(nextWriteAfter)); err != nil {
				o.forget(id)
			}
		}
	})
}

// begin reports whether a payload is to be extended now, and remembers that it was.
func (o *overduePayloads) begin(id task.ID, now task.Instant) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, ok := o.extended[id]; ok && now.Sub(last) < overdueEvery {
		return false
	}
	if o.extended == nil || len(o.extended) >= overdueKnownMax {
		o.extended = map[task.ID]task.Instant{}
	}
	o.extended[id] = now
	return true
}

func (o *overduePayloads) forget(id task.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.extended, id)
}
