package sqs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// transit is how long before its due time a message is sent, so that it is received and claimed by then.
const transit = 25 * time.Millisecond

// batch are the items of one call that go to one queue.
type batch struct {
	items []*outgoing
	at    []int // indexes in the call
}

type batches map[laneKey]*batch

func (b batches) add(key laneKey, o *outgoing, at int) {
	if b[key] == nil {
		b[key] = &batch{}
	}
	b[key].items, b[key].at = append(b[key].items, o), append(b[key].at, at)
}

// Send implements queue.Driver. It retries what SQS refuses for now a few times. After an unknown outcome the
// caller may send a message again: a claim refuses the second one.
func (d *Driver) Send(ctx context.Context, messages []queue.Message) []error {
	if err := d.usable(ctx); err != nil {
		return slices.Repeat([]error{err}, len(messages))
	}
	results, all := make([]error, len(messages)), batches{}
	for i := range messages {
		t := &messages[i].Task
		field := d.Codec.field(t)
		if size := bodyBytes(len(field)) + traceBytes(t.Traceparent); size > d.MessageBytesMax {
			results[i] = fmt.Errorf("%w message of task %s: %d bytes, the queue takes %d; a payload that is stored apart does not count",
				task.ErrInvalid, t.ID, size, d.MessageBytesMax)
			continue
		}
		name := queue.NameFor(t)
		all.add(keyOf(name), &outgoing{
			field: field, due: t.HeldUntil(), alone: name.Class != queue.Normal, trace: t.Traceparent,
		}, i)
	}
	d.sendAll(ctx, all, task.Managed, results)
	return results
}

// sendAll sends batches to their queues and sets the results of their items.
func (d *Driver) sendAll(ctx context.Context, all batches, mode task.Mode, results []error) {
	var sending sync.WaitGroup
	for key, b := range all {
		sending.Go(func() {
			for k, err := range d.sendBatch(ctx, key, mode, b.items) {
				results[b.at[k]] = err
			}
		})
	}
	sending.Wait()
}

func (d *Driver) sendBatch(ctx context.Context, key laneKey, mode task.Mode, items []*outgoing) []error {
	l, err := d.laneFor(key, mode)
	if err != nil {
		return slices.Repeat([]error{err}, len(items))
	}
	if mode == task.Managed {
		l.depths.sent(len(items))
	}
	results := l.senderFor(items).Do(ctx, items)
	for i, err := range results {
		if errors.Is(err, gather.ErrClosed) { // with the driver, or when the lambda was deleted
			results[i] = cmp.Or(d.usable(ctx), ErrNoQueue)
		}
	}
	return results
}

// senderFor returns the sender for items. When all are due later than that takes, they wait longer for
// others.
func (l *lane) senderFor(items []*outgoing) *sender {
	if l.mode == task.Deliver || l.driver.Linger == 0 {
		return l.sends
	}
	limit := l.driver.Clock.Now().Add(transit + aheadLinger)
	if slices.ContainsFunc(items, func(o *outgoing) bool { return o.due < limit }) {
		return l.sends
	}
	return l.aheadSends
}
