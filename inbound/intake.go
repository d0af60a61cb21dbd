package inbound

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// intake takes tasks in: those of a Schedule call, or what the consumer of the buffer has in hand. Each
// caller admits its tasks, which plans their rows, and then has them delivered, stored and announced.
type intake struct {
	*Inbound
	now    task.Instant
	since  time.Duration // since when what it knows of lambdas is true
	tasks  []incoming
	ops    []store.Op // the rows of all of them, one after the other
	rooms  map[queue.Name]*room
	lambda *catalog.Entry // of the task before: most calls name one
	keyed  uint64         // the seq of its tasks with a key; 0: none so far
}

// incoming is a task on its way in.
type incoming struct {
	item   *kinesinv1.ScheduleItem // what is asked for
	id     string                  // public; empty: that of task
	way    string                  // on which it is accepted; empty: it was accepted when it was put into the buffer
	lambda *catalog.Entry
	wanted task.Instant // when it is to start, before that is rounded up to what a row can say

	task     *task.Task // as far as it is known
	chain    []store.Op // its rows, of which the last decides; none: it needs no row
	at       int        // where they are among those of all tasks
	straight bool       // it goes straight to its queue, and gets a row only if that fails
	slot     Slot       // of a matched task, until it is written

	err   error // why it is refused
	known bool  // it is not new, or is to be dropped: nobody is told of it
}

func newIntake(in *Inbound, n int) *intake {
	return &intake{
		Inbound: in, now: in.Clock.Now(), since: in.Catalog.Since(), tasks: make([]incoming, n), ops: make([]store.Op, 0, n),
	}
}

// those are the tasks of which something is so.
func (b *intake) those(is func(c *incoming) bool) []*incoming {
	var some []*incoming
	for i := range b.tasks {
		if c := &b.tasks[i]; is(c) {
			some = append(some, c)
		}
	}
	return some
}

// isNew reports whether a task is not refused so far, and was not there before.
func (c *incoming) isNew() bool { return c.err == nil && !c.known }

// isOpen reports whether rows of a new task are to be written, or were.
func (c *incoming) isOpen() bool { return c.isNew() && len(c.chain) > 0 }

// isAlone reports whether a task is stored as a wake-up row alone.
func (c *incoming) isAlone() bool { return len(c.chain) == 1 }

// put has rows of a task written.
func (b *intake) put(c *incoming, chain []store.Op) {
	c.at = len(b.ops)
	b.ops = append(b.ops, chain...)
	c.chain, c.task = b.ops[c.at:], &b.ops[len(b.ops)-1].Task
}

// meet has the task that is there already stand for the one that was asked for, if it is the same.
func (c *incoming) meet(have *task.Task) {
	if c.err = sameTask(c.task, have); c.err == nil {
		c.task, c.known = have, true
	}
}

// sameTask refuses a second task under an id that is taken. Without a key the id was chosen by the
// client for this one call, so the same id is the same call.
func sameTask(want, have *task.Task) error {
	switch {
	case have.Partition.Lambda != want.Partition.Lambda:
		return api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "request id is taken by a task of another lambda")
	case want.Key != "" && have.Digest != want.Digest:
		return api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT,
			"key %q is taken by a task with another payload, priority or collection", want.Key)
	}
	return nil
}

// readRows reads the task rows of some tasks, and has each of them go on by its own, which has a zero ID
// where there is none.
func (b *intake) readRows(ctx context.Context, some []*incoming, goOn func(c *incoming, row *task.Task)) {
	if len(some) == 0 {
		return
	}
	ids := make([]task.ID, len(some))
	for k, c := range some {
		ids[k] = c.task.ID
	}
	rows, err := b.Store.Tasks(ctx, ids)
	for k, c := range some {
		if err != nil {
			c.err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		} else {
			goOn(c, &rows[k])
		}
	}
}

// store writes payloads first, so that no row ever names a payload that is not there, then the rows.
func (b *intake) store(ctx context.Context) {
	defer b.giveSlotsBack()
	b.meetKnown(ctx)
	met := b.storePayloads(ctx, b.those(b.isStoredApart))
	open := b.those((*incoming).isOpen)
	if len(open) == 0 {
		return
	}
	b.write(ctx, open)
	b.meetBehind(ctx, open)
	for _, c := range open {
		b.settleSlot(c, c.err)
		if conflict, is := errors.AsType[*store.ConflictError](c.err); is && conflict.Task != nil {
			c.meet(conflict.Task)
		}
	}
	// The ended task to which such a payload belonged may have been deleted, with its payload, just before
	// the row was written.
	b.storePayloads(ctx, slices.DeleteFunc(met, func(c *incoming) bool { return !c.isOpen() }))
	b.confirm(ctx)
}

// meetKnown settles tasks with a key that are there already, before anything is written for them: a payload
// that nobody would ever delete, or a wake-up row beside that of a task row that ends or expires meanwhile
// (docs/protocol.md, rule 5e).
func (b *intake) meetKnown(ctx context.Context) {
	keyed := b.those(func(c *incoming) bool { return c.isOpen() && c.task.ID.IsDerived() })
	b.readRows(ctx, keyed, func(c *incoming, row *task.Task) {
		if !row.ID.IsZero() {
			c.meet(row)
		}
	})
}

// isStoredApart reports whether the payload of a task is to be written to a row of its own.
func (b *intake) isStoredApart(c *incoming) bool {
	return c.isOpen() && len(c.item.Payload) > b.Store.PayloadInlineMax()
}

// storePayloads writes payloads, and returns the tasks whose payload is there already. That is the same one,
// left by an earlier try: its id tells what is in it, or was made for one call.
func (b *intake) storePayloads(ctx context.Context, some []*incoming) (met []*incoming) {
	if len(some) == 0 {
		return nil
	}
	ops := make([]store.Op, len(some))
	for k, c := range some {
		t := &c.chain[0].Task
		ops[k] = store.Op{Kind: store.PutPayload, New: true, Payload: c.item.Payload, Task: task.Task{
			ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: max(t.Due, b.now).Add(c.lambda.Retention),
		}}
	}
	outcomes, err := b.Store.Apply(ctx, ops)
	for k, c := range some {
		if outcome := outcomeOf(outcomes, k, err); errors.Is(outcome, store.ErrConflict) {
			met = append(met, c)
		} else {
			c.err = outcome
		}
	}
	return met
}

// write writes the rows of some tasks, and has the err of each say what became of it.
func (b *intake) write(ctx context.Context, some []*incoming) {
	var strays []store.Op
	outcomes, err := b.Store.Apply(ctx, b.opsOf(some))
	next := 0
	for _, c := range some {
		first := outcomeOf(outcomes, next, err)
		last := outcomeOf(outcomes, next+len(c.chain)-1, err)
		next += len(c.chain)
		if c.err = last; c.isAlone() {
			continue
		}
		c.err = chained(first, last)
		if wakeup := &c.chain[0].Task; first == nil && isStray(wakeup, c.err) {
			strays = append(strays, store.Remove(wakeup))
		}
	}
	if len(strays) > 0 {
		_, _ = b.Store.Apply(ctx, strays) // what is left is found by a pass over the partition
	}
}

// opsOf are the rows of some tasks: as they were put, if these are all, or a copy.
func (b *intake) opsOf(some []*incoming) []store.Op {
	n, asPut := 0, true
	for _, c := range some {
		asPut = asPut && c.at == n
		n += len(c.chain)
	}
	if asPut {
		return b.ops[:n]
	}
	ops := make([]store.Op, 0, n)
	for _, c := range some {
		ops = append(ops, c.chain...)
	}
	return ops
}

// chained is what became of a task that has a task row besides its wake-up row, by the outcomes of their
// puts. A wake-up row that was there already is fine: an earlier call may have come only half way, or it is
// the one of the task that is met then. Once there is one, the task may start whatever became of its task
// row, so nothing but that row is an answer.
func chained(wakeup, row error) error {
	switch {
	case wakeup != nil && !errors.Is(wakeup, store.ErrConflict):
		return wakeup
	case row == nil, errors.Is(row, store.ErrConflict), errors.Is(row, store.ErrUnknown):
		return row
	}
	return fmt.Errorf("%w: only the wake-up row was written: %s", store.ErrUnknown, row.Error())
}

// isStray reports whether a wake-up row that was put here serves nothing: the task row that was met has
// ended, or it names another one.
func isStray(wakeup *task.Task, outcome error) bool {
	conflict, ok := errors.AsType[*store.ConflictError](outcome)
	return ok && conflict.Task != nil && !needs(conflict.Task, wakeup)
}

// meetBehind has those that met a bare wake-up row meet the task row behind it. Without one it is not known
// what became of the task.
func (b *intake) meetBehind(ctx context.Context, written []*incoming) {
	var bare []*incoming
	for _, c := range written {
		if conflict, is := errors.AsType[*store.ConflictError](c.err); is && c.isAlone() && conflict.Task != nil && conflict.Task.IsBare() {
			bare = append(bare, c)
		}
	}
	b.readRows(ctx, bare, func(c *incoming, row *task.Task) {
		if c.err = (&store.ConflictError{Task: row}); row.ID.IsZero() {
			c.err = fmt.Errorf("%w: its wake-up row has no task row", store.ErrUnknown)
		}
	})
}

// confirm is for a store that several processes share. Who deletes a lambda in another one waits until
// everybody has heard of it, which is so after catalog.FreshFor, and then looks for tasks. A call that took
// longer must not say that it stored any, unless the lambda is still there: they may have been stored after
// that look. Likewise it must not say so of a task that it placed by a count of shards that is not in force
// any more: the same call again would store another one.
func (b *intake) confirm(ctx context.Context) {
	if !b.Shared || b.Catalog.IsFresh(b.since) {
		return
	}
	err := b.Catalog.Refresh(ctx)
	for _, c := range b.those((*incoming).isOpen) {
		switch l := b.Catalog.ByRef(c.task.Partition.Lambda); {
		case err != nil || l == nil || l.Deleting:
			c.err = errMayBeGone
		case c.isMisplaced(l):
			_, _ = b.Store.Apply(ctx, []store.Op{store.Remove(c.task)}) // or the task row refuses one of the two
			c.err = errMisplaced
		}
	}
}

// isMisplaced reports whether a wake-up row was put where nobody looks for it again. Of a task that has a
// task row that says where it is, and an id that a server issued says so too.
func (c *incoming) isMisplaced(l *catalog.Entry) bool {
	return c.isAlone() && c.way != "" && partitionOf(l, c.task.Partition.Priority, c.task.ID) != c.task.Partition
}

var errMayBeGone = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE,
	"the lambda may have been deleted meanwhile, and the task stored or not; try again")

var errMisplaced = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the lambda's shards have grown, and this server did not know; try again")

// announce tells those who act on the new tasks, unless a worker has them by now: the queue, or the
// scheduler.
func (b *intake) announce(ctx context.Context) {
	var messages []queue.Message
	for _, c := range b.those((*incoming).isOpen) {
		switch {
		case c.task.State == task.Claimed: // the scheduler and the worker know
		case c.task.State == task.Enqueued:
			messages = append(messages, queue.Message{Task: *c.task})
		case c.isAlone():
			b.Scheduler.Added(c.task)
		default:
			b.Scheduler.Awake(c.task)
		}
	}
	b.count()
	if len(messages) == 0 {
		return
	}
	for i, err := range b.Queue.Send(ctx, messages) {
		if err != nil { // the task is enqueued; its wake-up sends it again
			b.Scheduler.Awake(&messages[i].Task)
		} else {
			b.Scheduler.Enqueued(&messages[i].Task)
		}
	}
}

// count tells the hooks which tasks were accepted, with one call for a run of tasks of one class that came on
// one way.
func (b *intake) count() {
	accepted := b.those(func(c *incoming) bool { return c.isNew() && c.way != "" })
	for len(accepted) > 0 {
		c := accepted[0]
		n := slices.IndexFunc(accepted, func(other *incoming) bool {
			return other.lambda != c.lambda || other.task.Partition.Priority != c.task.Partition.Priority || other.way != c.way
		})
		if n < 0 {
			n = len(accepted)
		}
		if b.Hooks.Accepted != nil {
			b.Hooks.Accepted(c.lambda, c.task.Partition.Priority, n)
		}
		if b.Hooks.Way != nil {
			b.Hooks.Way(c.way, n)
		}
		accepted = accepted[n:]
	}
}

func outcomeOf(outcomes []error, k int, err error) error {
	if k < len(outcomes) {
		return outcomes[k]
	}
	return err
}
