package dynamo

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Payload rows expire by themselves, since deleting one, or only marking it, costs as much as writing it.
// What is written with a payload is therefore later than most tasks need, and a write that shows that its
// task lasts longer puts it off first.
const (
	// payloadKeep is how long a payload is kept at least after its task was due, or created if that is later.
	payloadKeep = 45 * 24 * time.Hour
	// payloadSlack covers clocks and the time between the rows of one Schedule call.
	payloadSlack = 24 * time.Hour
	// keepAhead is how long after its wake-up a live task may be written next.
	keepAhead = 14 * 24 * time.Hour
	// overdueAfter is when a task that waits for its dispatch, and is seen to, is late enough to look after
	// its payload: no write shows that it lasts.
	overdueAfter = 14 * 24 * time.Hour
	// overdueEvery is how often that is looked at for one task.
	overdueEvery = 24 * time.Hour
	// overdueMax bounds the payloads that one scan looks after, and overdueKnownMax those remembered.
	overdueMax      = 32
	overdueKnownMax = 16384
	// keepsMax is how many payloads one call looks after at a time.
	keepsMax = 16
)

// payloadUntil is when the payload of a task expires that is written now. PutPayload says when the task
// is due, and with ExpireAt, if it likes, how long its ended row will be wanted.
func payloadUntil(now task.Instant, t *task.Task) task.Instant {
	return max(now.Add(payloadKeep), t.Due.Add(payloadKeep), t.ExpireAt).Add(payloadSlack)
}

// wanted is until when a stored task may ask for its payload; ok is false when that is surely less than what
// was written with the payload.
func wanted(op *store.Op) (until task.Instant, ok bool) {
	t := &op.Task
	switch op.Kind {
	case store.PutWakeup, store.ReplaceWakeup, store.PutTask, store.ReplaceTask:
	case store.DeleteWakeup, store.PutPayload, store.DeletePayload, store.PutControl, store.DeleteControl:
		return 0, false
	}
	if !t.PayloadStoredApart() {
		return 0, false
	}
	sure := max(t.Due, t.Created).Add(payloadKeep)
	if t.State.IsEnd() {
		return t.ExpireAt, t.ExpireAt > sure
	}
	until = max(t.Wake, t.Due).Add(keepAhead)
	return until, until > sure || movedDue(op)
}

// movedDue reports whether a write may have changed when a task is due: then its payload was written for
// another time.
func movedDue(op *store.Op) bool {
	t := &op.Task
	switch op.Kind {
	case store.PutWakeup:
		return t.WakeRow.Seq > 1
	case store.ReplaceTask:
		return t.State == task.Scheduled && t.Wake == t.Due
	case store.DeleteWakeup, store.PutTask, store.PutPayload, store.DeletePayload, store.PutControl, store.DeleteControl, store.ReplaceWakeup:
	}
	return false
}

// keepPayloads makes the payloads of tasks last as long as the rows that ops are about to write need them. It
// returns an error for each op, or nil when nothing had to be done.
func (d *Driver) keepPayloads(ctx context.Context, ops []store.Op) (errs []error) {
	var group errgroup.Group
	group.SetLimit(keepsMax)
	for i := range ops {
		until, ok := wanted(&ops[i])
		if !ok {
			continue
		}
		if errs == nil {
			errs = make([]error, len(ops))
		}
		t := &ops[i].Task
		group.Go(func() error {
			errs[i] = d.extend(ctx, taskKey(t.PayloadID()), max(until, t.Due.Add(payloadKeep)))
			return nil
		})
	}
	_ = group.Wait() // errs has them
	return errs
}

// extend puts off the expiry of a payload row, if it is there and expires before. Reading first is cheaper:
// every write of the row is charged by its size, and so is one whose condition fails.
func (d *Driver) extend(ctx context.Context, key map[string]types.AttributeValue, until task.Instant) error {
	item, err := d.getItem(ctx, d.tables.payloads, key, attrExpire)
	if err != nil || item == nil {
		return err
	}
	if number(item, attrExpire) >= expirySeconds(until) {
		return nil
	}
	later := &types.AttributeValueMemberN{Value: strconv.FormatUint(expirySeconds(until.Add(payloadKeep)), 10)}
	err = d.retry(ctx, *d.tables.payloads, func() error {
		out, err := request(ctx, d, "UpdateItem", 1, &dynamodb.UpdateItemInput{
			TableName: d.tables.payloads, Key: key, ReturnConsumedCapacity: d.asks(),
			UpdateExpression:          aws.String("SET " + attrExpire + "=:x"),
			ConditionExpression:       aws.String(attrExpire + "<:x"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":x": later},
		}, d.api.UpdateItem)
		if err == nil {
			d.consumed("UpdateItem", out.ConsumedCapacity)
		}
		return err
	})
	if _, kept := errors.AsType[*types.ConditionalCheckFailedException](err); kept { // by another one, or deleted
		return nil
	}
	return err
}

// overdue remembers when payloads of overdue tasks were looked after.
type overdue struct {
	mu     sync.Mutex // guards looked
	looked map[task.ID]task.Instant
}

// keepOverdue looks after the payloads of tasks in wake-up rows from long ago, without holding up who read
// them.
func (d *Driver) keepOverdue(rows []task.Task) {
	now := d.cfg.Clock.Now()
	var late []task.ID
	for i := range rows {
		t := &rows[i]
		if now.Sub(t.WakeRow.At) < overdueAfter || len(late) == overdueMax {
			break // rows are in order of time
		}
		if t.PayloadStoredApart() && d.overdue.begin(t.PayloadID(), now) {
			late = append(late, t.PayloadID())
		}
	}
	if len(late) == 0 {
		return
	}
	d.running.Go(func() {
		for _, id := range late {
			if err := d.extend(d.base, taskKey(id), now.Add(keepAhead)); err != nil {
				d.overdue.forget(id)
			}
		}
	})
}

func (o *overdue) begin(id task.ID, now task.Instant) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if last, ok := o.looked[id]; ok && now.Sub(last) < overdueEvery {
		return false
	}
	if o.looked == nil || len(o.looked) >= overdueKnownMax {
		o.looked = map[task.ID]task.Instant{}
	}
	o.looked[id] = now
	return true
}

func (o *overdue) forget(id task.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.looked, id)
}

func number(item map[string]types.AttributeValue, name string) uint64 {
	v, ok := item[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0
	}
	n, err := strconv.ParseUint(v.Value, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
