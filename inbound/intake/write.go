package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Write stores the planned tasks, payloads first, so that no row ever names a payload that does not exist.
func (b *Batch) Write(ctx context.Context) {
	defer b.release()
	b.useExistingKeys(ctx)
	existing := b.storePayloads(ctx, b.Select(b.isStoredApart))
	follows := b.storeFollows(ctx, b.Select((*Incoming).hasFollowApart))
	open := b.Select((*Incoming).IsOpen)
	if len(open) == 0 {
		return
	}
	b.writeRows(ctx, open)
	b.readBehindBareRows(ctx, open)
	for _, c := range open {
		b.Starter.Settle(&c.start, c.Task, c.Err)
		if have := conflicting(c.Err); have != nil {
			b.use(c, have)
		} else if c.ended != nil && errors.Is(c.Err, store.ErrConflict) {
			c.Err = fmt.Errorf("%w: the ended task with its key expired meanwhile", store.ErrUnknown)
		}
	}
	b.forgetPayloads(ctx)
	// An existing payload may have belonged to an ended task and been deleted with it just before the row was
	// written.
	b.storePayloads(ctx, slices.DeleteFunc(existing, func(c *Incoming) bool { return !c.IsOpen() }))
	b.storeFollows(ctx, slices.DeleteFunc(follows, func(c *Incoming) bool { return !c.IsOpen() }))
	b.checkStillValid(ctx)
}

// release gives back the slots of tasks that were not written.
func (b *Batch) release() {
	for i := range b.Tasks {
		c := &b.Tasks[i]
		b.Starter.Settle(&c.start, c.Task, store.ErrSkipped)
	}
}

// conflicting returns the task in the row that a write conflicted with; nil when the outcome is no conflict.
func conflicting(outcome error) *task.Task {
	if conflict, is := errors.AsType[*store.ConflictError](outcome); is {
		return conflict.Task
	}
	return nil
}

// forgetPayloads deletes the payloads and the follow-ups of ended tasks whose rows the batch has replaced.
func (b *Batch) forgetPayloads(ctx context.Context) {
	for _, c := range b.Select(func(c *Incoming) bool { return c.ended != nil && c.IsNew() }) {
		if c.ended.PayloadStoredApart() && c.ended.PayloadID() != c.Task.PayloadID() {
			b.ForgetPayload(ctx, c.ended)
		}
		b.ForgetFollow(ctx, c.ended)
	}
}

// isStoredApart reports whether the payload of a task gets a row of its own.
func (b *Batch) isStoredApart(c *Incoming) bool {
	return c.IsOpen() && len(c.Item.Payload) > b.Store.PayloadInlineMax()
}

// storePayloads writes payloads and returns the tasks whose payload existed. An existing payload is the same
// one, left by an earlier try: its id is derived from its contents, or was made for one call.
func (b *Batch) storePayloads(ctx context.Context, some []*Incoming) (existing []*Incoming) {
	if len(some) == 0 {
		return nil
	}
	ops := make([]store.Op, len(some))
	for k, c := range some {
		t := c.Wakeup()
		ops[k] = store.Op{Kind: store.PutPayload, New: true, Payload: c.Item.Payload, Task: task.Task{
			ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: max(t.Due, b.Now).Add(c.Lambda.Retention),
		}}
	}
	outcomes := store.Outcomes(ctx, b.Store, ops)
	for k, c := range some {
		if errors.Is(outcomes[k], store.ErrConflict) {
			existing = append(existing, c)
		} else {
			c.Err = outcomes[k]
		}
	}
	return existing
}

// writeRows writes the rows of some tasks and sets the Err of each to its outcome.
func (b *Batch) writeRows(ctx context.Context, some []*Incoming) {
	var leftovers []store.Op
	outcomes := store.Outcomes(ctx, b.Store, b.opsOf(some))
	for _, c := range some {
		first, last := outcomes[c.at], outcomes[c.at+len(c.rows)-1]
		if c.Err = last; c.OnlyWakeup() {
			continue
		}
		c.Err = outcomeOfPair(first, last)
		if have := conflicting(c.Err); first == nil && have != nil && !Needs(have, c.Wakeup()) {
			leftovers = append(leftovers, store.Remove(c.Wakeup()))
		}
	}
	if len(leftovers) > 0 {
		_, _ = b.Store.Apply(ctx, leftovers) // a full scan of the partition finds what remains
	}
}

// opsOf returns the writes of some tasks, and notes in each task where its own begin.
func (b *Batch) opsOf(some []*Incoming) []store.Op {
	n := 0
	for _, c := range some {
		n += len(c.rows)
	}
	if n == len(b.ops) {
		return b.ops
	}
	ops := make([]store.Op, 0, n)
	for _, c := range some {
		c.at = len(ops)
		ops = append(ops, c.rows...)
	}
	return ops
}

// outcomeOfPair combines the outcomes of a wake-up row and a task row that were put for one task. A wake-up
// row that existed is fine: an earlier call may have stopped halfway, or it belongs to the task that is met.
// Once there is one, the task may start whatever became of its task row, so only that row is an answer.
func outcomeOfPair(wakeup, row error) error {
	switch {
	case wakeup != nil && !errors.Is(wakeup, store.ErrConflict):
		return wakeup
	case row == nil, errors.Is(row, store.ErrConflict), errors.Is(row, store.ErrUnknown):
		return row
	}
	return fmt.Errorf("%w: only the wake-up row was written: %s", store.ErrUnknown, row.Error())
}

// readBehindBareRows replaces a conflict with a bare wake-up row by a conflict with the task row behind that. If there is
// none, the outcome of the write is unknown.
func (b *Batch) readBehindBareRows(ctx context.Context, written []*Incoming) {
	var bare []*Incoming
	for _, c := range written {
		if have := conflicting(c.Err); c.OnlyWakeup() && have != nil && have.IsBare() {
			bare = append(bare, c)
		}
	}
	b.ReadRows(ctx, bare, func(c *Incoming, row *task.Task) {
		if c.Err = (&store.ConflictError{Task: row}); row.ID.IsZero() {
			c.Err = fmt.Errorf("%w: its wake-up row has no task row", store.ErrUnknown)
		}
	})
}

// checkStillValid is for a store that several processes share. A process that deletes a lambda waits for
// catalog.FreshFor, until all others know, and then looks for tasks. A call that took longer may have stored
// tasks after that look, so it acknowledges them only if the lambda still exists. Nor does it acknowledge a
// task that it placed by a count of shards that is no longer in force: the same call again would store
// another one.
func (b *Batch) checkStillValid(ctx context.Context) {
	if !b.Shared || b.Catalog.IsFresh(b.since) {
		return
	}
	err := b.Catalog.Refresh(ctx)
	for _, c := range b.Select((*Incoming).IsOpen) {
		switch l := b.Catalog.ByRef(c.Task.Partition.Lambda); {
		case err != nil || l == nil || l.Deleting:
			c.Err = errMayBeDeleted
		case c.isMisplaced(l):
			_, _ = b.Store.Apply(ctx, []store.Op{store.Remove(c.Task)}) // or the task row refuses one of the two
			c.Err = errMisplaced
		}
	}
}

// isMisplaced reports whether a wake-up row was put where nobody looks for it again. A task row says where
// its task is, and so does an id that a server issued.
func (c *Incoming) isMisplaced(l *catalog.Entry) bool {
	return c.OnlyWakeup() && c.Way != "" && PartitionOf(l, c.Task.Partition.Priority, c.Task.ID, c.Task.LimitKey) != c.Task.Partition
}

var errMayBeDeleted = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE,
	"the lambda may have been deleted meanwhile, and it is unknown whether the task was stored; try again")

var errMisplaced = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the lambda's shards have grown, and this server did not know yet; try again")
