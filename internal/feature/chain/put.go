package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// putsMax bounds the follow-ups that are put in one call.
const putsMax = 500

// put stores the follow-ups of a task that has ended, each if it is absent, and tells the scheduler. again
// says that some may have been put before.
func (k *Keeper) put(ctx context.Context, ended *task.Task, all []*followup, again bool) error {
	if i := slices.IndexFunc(all, isKeyed); i >= 0 {
		if err := k.takeAll(ctx, ended, all[i:], again); err != nil {
			return err
		}
		all = slices.DeleteFunc(slices.Clone(all), isKeyed)
	}
	for len(all) > 0 {
		part := all[:min(len(all), putsMax)]
		all = all[len(part):]
		var payloads, rows []store.Op
		for i := range part {
			payloads = append(payloads, part[i].payloads...)
			rows = append(rows, store.Op{Kind: store.PutWakeup, Task: part[i].task})
		}
		for _, ops := range [][]store.Op{payloads, rows} {
			if err := k.putAbsent(ctx, ops); err != nil {
				return err
			}
		}
		k.tell(part)
	}
	return nil
}

// putAbsent makes writes of which each may have been made before.
func (k *Keeper) putAbsent(ctx context.Context, ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	outcomes, err := k.Store.Apply(ctx, ops)
	for _, outcome := range outcomes {
		if outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			return fmt.Errorf("put a follow-up: %w", outcome)
		}
	}
	return err
}

func (k *Keeper) tell(all []*followup) {
	if k.Added == nil {
		return
	}
	for i := range all {
		k.Added(&all[i].task)
	}
}
