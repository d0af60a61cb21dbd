package inbound

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// payloadOp is the write of a payload that is stored apart.
type payloadOp struct {
	item int // index
	op   store.Op
}

// meetKnown settles keyed items whose task is there already, before anything is written for them: a payload that nobody would
// ever delete, or a wake-up row beside that of a task row that ends or expires meanwhile (docs/protocol.md, rule 5e).
func (b *intake) meetKnown(ctx context.Context) {
	var ids []task.ID
	var at []int
	for k := range b.deciding() {
		if op := &b.ops[k]; op.Task.ID.IsDerived() {
			ids, at = append(ids, op.Task.ID), append(at, k)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.Store.Tasks(ctx, ids)
	for n, k := range at {
		switch {
		case err != nil:
			b.settle(ctx, b.itemOf[k], &b.ops[k], fmt.Errorf("%w: %w", store.ErrUnknown, err))
		case !rows[n].ID.IsZero():
			b.settle(ctx, b.itemOf[k], &b.ops[k], &store.ConflictError{Task: &rows[n]})
		}
	}
	b.forgetSettled()
}

// places finds the deciding op of an item.
func (b *intake) places() map[int]int {
	places := make(map[int]int, len(b.itemOf))
	for k := range b.deciding() {
		places[b.itemOf[k]] = k
	}
	return places
}

// forgetSettled drops the ops that were settled before they were written, and their payloads.
func (b *intake) forgetSettled() {
	open := make(map[int]bool, len(b.ops)) // by item
	ops, itemOf := b.ops[:0], b.itemOf[:0]
	for k := range b.deciding() {
		open[b.itemOf[k]] = b.ops[k].Kind != 0
	}
	for k, i := range b.itemOf {
		if open[i] {
			ops, itemOf = append(ops, b.ops[k]), append(itemOf, i)
		}
	}
	b.ops, b.itemOf = ops, itemOf
	b.payloads = slices.DeleteFunc(b.payloads, func(p payloadOp) bool { return !open[p.item] })
}

// storePayloads writes the payloads and settles the items of those that could not be stored. One that is
// there already is the same one, left by an earlier try: its id tells what is in it, or was made for one call.
func (b *intake) storePayloads(ctx context.Context) {
	if len(b.payloads) == 0 {
		return
	}
	places := b.places()
	outcomes, err := b.Store.Apply(ctx, payloadOps(b.payloads))
	for k, p := range b.payloads {
		switch outcome := outcomeOf(outcomes, k, err); {
		case outcome == nil:
		case errors.Is(outcome, store.ErrConflict):
			b.met = append(b.met, p)
		default:
			b.settle(ctx, p.item, &b.ops[places[p.item]], outcome)
		}
	}
	b.forgetSettled()
}

// storeMet writes the payloads of new rows that were met once more: the ended task to which such a payload
// belonged may have been deleted, with its payload, just before the row was written.
func (b *intake) storeMet(ctx context.Context) {
	places := b.places()
	met := slices.DeleteFunc(b.met, func(p payloadOp) bool {
		k, open := places[p.item]
		return !open || b.ops[k].Kind == 0
	})
	if len(met) == 0 {
		return
	}
	outcomes, err := b.Store.Apply(ctx, payloadOps(met))
	for k, p := range met {
		if outcome := outcomeOf(outcomes, k, err); outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			b.settle(ctx, p.item, &b.ops[places[p.item]], outcome)
		}
	}
}

func payloadOps(payloads []payloadOp) []store.Op {
	ops := make([]store.Op, len(payloads))
	for k := range payloads {
		ops[k] = payloads[k].op
	}
	return ops
}

func outcomeOf(outcomes []error, k int, err error) error {
	if k < len(outcomes) {
		return outcomes[k]
	}
	return err
}
