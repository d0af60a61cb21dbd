package group

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// step counts a group, and ends it if all of its members have ended.
func (k *Keeper) step(ctx context.Context, id task.ID, tr *tracker, heard []end) (next time.Duration, err error) {
	k.heard.Add(-int64(len(heard)))
	defer func() {
		if err != nil {
			tr.group = nil // whatever was stored is read again
		}
	}()
	now := k.Clock.Now()
	open := tr.group != nil && tr.group.isOpen(now)
	if open && len(heard) == 0 {
		return control.Done, nil
	}
	if open || tr.group == nil || now >= tr.read.Add(readEvery) {
		if err := k.readGroup(ctx, id, tr); err != nil {
			return 0, err
		}
	}
	g := tr.group
	switch {
	case g == nil || g.IsEnded():
		return control.Done, nil
	case !g.Completed.IsZero():
		return control.Done, k.finish(ctx, g)
	case !g.isOpen(now):
	case k.isMine(g) && expiresSoon(g, now):
		return g.Expires.Sub(now), nil
	default:
		return unsealedFor, nil
	}
	before := tr.count.cursor
	for _, e := range heard {
		if e != (end{}) && e.try == g.TryAt(e.index) {
			tr.count.note(e.index, e.state, g.Members)
		}
	}
	if err := tr.count.advance(ctx, k.Store, g, now); err != nil {
		return 0, err
	}
	if tr.count.cursor > before {
		tr.moved = now
	}
	if all := tr.count.cursor == g.Members; all && !g.Sealed.IsZero() || now >= g.Expires {
		return k.complete(ctx, tr, !all || g.Sealed.IsZero())
	}
	if err := k.save(ctx, tr, now); err != nil || tr.group == nil {
		return 0, err
	}
	return k.nextLook(tr, now), nil
}

// nextLook returns after how long to count a group again if nothing is heard of it.
func (k *Keeper) nextLook(tr *tracker, now task.Instant) time.Duration {
	if !k.isMine(tr.group) {
		return othersLook
	}
	pause := min(max(now.Sub(tr.moved)/10, lookMin), lookMax)
	return min(max(pause, tr.count.wait.Sub(now)), tr.group.Expires.Sub(now))
}

// readGroup reads the row of a group. A count that another process stored, and that has got further, replaces
// this one.
func (k *Keeper) readGroup(ctx context.Context, id task.ID, tr *tracker) error {
	g, err := k.groups.Find(ctx, id.String())
	if errors.Is(err, store.ErrNotFound) {
		tr.group = nil
		return nil
	}
	if err != nil {
		return err
	}
	if tr.group == nil && tr.moved.IsZero() {
		tr.moved = k.Clock.Now()
	}
	tr.group, tr.read = g, k.Clock.Now()
	if g.Cursor > tr.count.cursor {
		tr.count.cursor, tr.count.ended = g.Cursor, g.Ended
	}
	tr.count.remembers = k.hasRoom(tr, g)
	return nil
}

// hasRoom reports whether the ends of a group's members may be remembered.
func (k *Keeper) hasRoom(tr *tracker, g *Group) bool {
	if tr.count.remembers {
		return true
	}
	return (k.tracked.Len()+1)*int(g.Members) <= rememberedMax
}

// save stores how far a count has got, if it is far enough, so that whoever goes on need not read that again.
func (k *Keeper) save(ctx context.Context, tr *tracker, now task.Instant) error {
	g := tr.group
	if tr.count.cursor < g.Cursor+saveMembers || now < tr.saved.Add(saveEvery) {
		return nil
	}
	next := *g
	next.Cursor, next.Ended = tr.count.cursor, tr.count.ended
	err := k.groups.Put(ctx, &next)
	if errors.Is(err, store.ErrConflict) {
		tr.group = nil // it is read again
		return nil
	}
	if err == nil {
		tr.group, tr.saved = &next, now
	}
	return err
}
