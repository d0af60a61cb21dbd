package inbound

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// store writes payloads first, so that no row ever names a payload that is not there, then the rows.
func (b *intake) store(ctx context.Context) {
	defer b.settleSlots()
	b.meetKnown(ctx)
	b.storePayloads(ctx)
	if len(b.ops) == 0 {
		return
	}
	results, err := b.Store.Apply(ctx, b.ops)
	b.meetBehind(ctx, results)
	var strays []store.Op
	for k := range b.deciding() {
		outcome := outcomeOf(results, k, err)
		if b.ops[k].Follows {
			first := outcomeOf(results, k-1, err)
			outcome = chained(first, outcome)
			if stray := &b.ops[k-1].Task; first == nil && isStray(stray, outcome) {
				strays = append(strays, store.Remove(stray))
			}
		}
		b.settleSlot(b.itemOf[k], &b.ops[k].Task, outcome)
		b.settle(ctx, b.itemOf[k], &b.ops[k], outcome)
	}
	if len(strays) > 0 {
		_, _ = b.Store.Apply(ctx, strays) // what is left is found by a pass over the partition
	}
	if len(b.met) > 0 {
		b.storeMet(ctx)
	}
	b.confirm(ctx)
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
	for k := range b.deciding() {
		op := &b.ops[k]
		if op.Kind == 0 {
			continue
		}
		switch l := b.Catalog.ByRef(op.Task.Partition.Lambda); {
		case err != nil || l == nil || l.Deleting:
			op.Kind = 0
			b.refuse(ctx, b.itemOf[k], errMayBeGone)
		case b.isMisplaced(l, b.itemOf[k], op):
			_, _ = b.Store.Apply(ctx, []store.Op{store.Remove(&op.Task)}) // or the task row refuses one of the two
			op.Kind = 0
			b.refuse(ctx, b.itemOf[k], errMisplaced)
		}
	}
}

// isMisplaced reports whether a wake-up row was put where nobody looks for it again. Of a task that has a
// task row that says where it is, and an id that a server issued says so too.
func (b *intake) isMisplaced(l *catalog.Entry, item int, op *store.Op) bool {
	return op.Kind == store.PutWakeup && b.isAccepted(item) && partitionOf(l, op.Task.Partition.Priority, op.Task.ID) != op.Task.Partition
}

var errMayBeGone = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE,
	"the lambda may have been deleted meanwhile, and the task stored or not; try again")

var errMisplaced = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the lambda's shards have grown, and this server did not know; try again")

// deciding yields the op of each item that says what becomes of it, which is the last one of its chain.
func (b *intake) deciding() iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := range b.ops {
			if leads := k+1 < len(b.ops) && b.ops[k+1].Follows; !leads && !yield(k) {
				return
			}
		}
	}
}

// chained is what became of an item that has a task row besides its wake-up row, by the outcomes of their
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

// meetBehind has those items that met a bare wake-up row meet the task row behind it. Without one it is not
// known what became of the item.
func (b *intake) meetBehind(ctx context.Context, results []error) {
	var ids []task.ID
	var at []int
	for k := range b.deciding() {
		conflict, ok := errors.AsType[*store.ConflictError](outcomeOf(results, k, nil))
		if ok && b.ops[k].Kind == store.PutWakeup && conflict.Task != nil && conflict.Task.IsBare() {
			ids, at = append(ids, conflict.Task.ID), append(at, k)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.Store.Tasks(ctx, ids)
	for n, k := range at {
		switch {
		case err != nil:
			results[k] = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		case rows[n].ID.IsZero():
			results[k] = fmt.Errorf("%w: its wake-up row has no task row", store.ErrUnknown)
		default:
			results[k] = &store.ConflictError{Task: &rows[n]}
		}
	}
}

// settle turns the outcome of an item's deciding op into its result. An op that leads to
// nothing more is marked by a zero kind.
func (b *intake) settle(ctx context.Context, i int, op *store.Op, outcome error) {
	t := &op.Task
	var conflict *store.ConflictError
	switch {
	case outcome == nil:
	case errors.As(outcome, &conflict) && conflict.Task != nil:
		op.Kind = 0
		if err := sameTask(t, conflict.Task); err != nil {
			b.refuse(ctx, i, err)
			return
		}
		t = conflict.Task
		b.results[i].Duplicate = true
	default:
		op.Kind = 0
		b.refuse(ctx, i, outcome)
		return
	}
	if b.issued == nil {
		b.results[i].Id = b.Sealer.Seal(task.TokenOf(t))
	}
	b.results[i].DueMicros = int64(t.Due)
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

// announce tells those who act on the new tasks, unless a worker has them by now: the queue, or the scheduler.
func (b *intake) announce(ctx context.Context) {
	var messages []queue.Message
	for k := range b.deciding() {
		op := &b.ops[k]
		switch {
		case op.Kind == 0 || op.Task.State == task.Claimed: // the scheduler and the worker know
		case op.Task.State == task.Enqueued:
			messages = append(messages, queue.Message{Task: op.Task})
		case op.Kind == store.PutWakeup:
			b.Scheduler.Added(&op.Task)
		default:
			b.Scheduler.Awake(&op.Task)
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

// count tells the hooks how many tasks were accepted, and on which way.
func (b *intake) count() {
	accepted := func(yield func(int) bool) {
		for k := range b.deciding() {
			if b.ops[k].Kind != 0 && b.isAccepted(b.itemOf[k]) && !yield(k) {
				return
			}
		}
	}
	b.countOps(accepted)
	if b.Hooks.Way == nil {
		return
	}
	var fallback, rest int
	for k := range accepted {
		if b.fallback[b.itemOf[k]] {
			fallback++
		} else {
			rest++
		}
	}
	b.way(WayFallback, fallback)
	if b.issued == nil {
		b.way(WayStore, rest)
	} else {
		b.way(WayDirect, rest)
	}
}

// isAccepted reports whether an item is accepted now, and not when it was put into the buffer.
func (b *intake) isAccepted(item int) bool {
	return b.issued == nil || task.IsInboundToken(b.issued[item])
}

// countOps tells the hook with one call for a run of tasks of one class.
func (b *intake) countOps(ops iter.Seq[int]) {
	if b.Hooks.Accepted == nil {
		return
	}
	var class task.Partition
	n := 0
	flush := func() {
		if l := b.Catalog.ByRef(class.Lambda); l != nil && n > 0 {
			b.Hooks.Accepted(l, class.Priority, n)
		}
		n = 0
	}
	for k := range ops {
		p := b.ops[k].Task.Partition
		p.Shard = 0
		if p != class {
			flush()
			class = p
		}
		n++
	}
	flush()
}
