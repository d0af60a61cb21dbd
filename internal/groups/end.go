package groups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// complete stores that a group has ended, and how; then it ends it. Of several who do so, one is the first:
// the others go on with what that one stored.
func (k *Keeper) complete(ctx context.Context, tr *tracker, expired bool) (next task.Instant, err error) {
	now, g := k.Clock.Now(), *tr.group
	g.Cursor, g.Ended, g.Completed, g.Expired = tr.count.cursor, tr.count.ended, now, expired
	err = Put(ctx, k.Store, &g)
	switch {
	case errors.Is(err, store.ErrConflict):
		tr.group = nil
		return now, nil
	case err != nil:
		return 0, err
	}
	return 0, k.finish(ctx, &g)
}

// finish schedules what follows after a group that is complete, and moves its row out of the way of those
// that are not. Each step may be made again.
func (k *Keeper) finish(ctx context.Context, g *Group) error {
	ended := *g
	item, err := k.followUpOf(ctx, g)
	switch {
	case errors.Is(err, store.ErrNotFound):
		ended.Problem = "the group was never wholly created"
	case err != nil:
		return err
	case item != nil:
		ended.FollowUp, err = k.FollowUp(ctx, item, g.End(), g.Completed)
		if err != nil && k.ForNow(err) {
			return fmt.Errorf("schedule what follows: %w", err)
		}
		if err != nil {
			ended.Problem = err.Error()
			k.Log.ErrorContext(ctx, "nothing follows after a group", slog.String("group", g.ID), slog.Any("error", err))
		}
	}
	ended.Version = 0
	if err := put(ctx, k.Store, KindEnded, &ended); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	err = k.Store.DeleteControl(ctx, store.Control{Kind: KindOpen, Name: g.ID, Version: g.Version})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("delete the row of ended group %s: %w", g.ID, err)
	}
	return nil
}

// followUpOf returns the task that follows after a group; nil: none does.
func (k *Keeper) followUpOf(ctx context.Context, g *Group) ([]byte, error) {
	spec, err := findSpec(ctx, k.Store, g.ID)
	if err != nil {
		return nil, err
	}
	wellDone := !g.Expired && g.Ended.Succeeded() == g.Members
	switch {
	case wellDone:
		return spec.Then, nil
	case len(spec.Else) > 0:
		return spec.Else, nil
	case g.Expired:
		return nil, nil
	}
	return spec.Then, nil
}

// tidy forgets groups that ended and expired long ago.
func (k *Keeper) tidy(ctx context.Context) error {
	rows, err := k.Store.Controls(ctx, KindEnded)
	if err != nil {
		return fmt.Errorf("read ended groups: %w", err)
	}
	now := k.Clock.Now()
	for _, row := range rows {
		g, err := decode(row)
		if err != nil || now < g.Until() {
			continue
		}
		spec, err := k.Store.Control(ctx, KindSpec, g.ID)
		if err == nil {
			err = k.Store.DeleteControl(ctx, spec)
		}
		if err == nil || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
			err = k.Store.DeleteControl(ctx, row)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("forget group %s: %w", g.ID, err)
		}
	}
	return nil
}
