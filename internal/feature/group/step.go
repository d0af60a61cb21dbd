package group

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// step counts a group, and ends it if all of its members have ended. It returns when to count it again; 0:
// not here.
func (k *Keeper) step(ctx context.Context, tr *tracker, heard []end) (next task.Instant, err error) {
	now := k.Clock.Now()
	if tr.group == nil || now >= tr.read.Add(readEvery) {
		if err := k.readGroup(ctx, tr); err != nil {
			return 0, err
		}
	}
	g := tr.group
	switch {
	case g == nil || g.IsEnded():
		return 0, nil
	case !g.Completed.IsZero():
		return 0, k.finish(ctx, g)
	case g.Sealed.IsZero() && now < g.Expires:
		k.noteUnsealed(tr.id, now)
		if k.isMine(g) && expiresSoon(g, now) {
			return g.Expires, nil
		}
		return 0, nil
	}
	before := tr.count.cursor
	for _, e := range heard {
		if e.try == g.TryAt(e.index) {
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
		return now, err
	}
	return k.nextLook(tr, now), nil
}

// nextLook returns when to count a group again if nothing is heard of it.
func (k *Keeper) nextLook(tr *tracker, now task.Instant) task.Instant {
	if !k.isMine(tr.group) {
		return now.Add(othersLook)
	}
	pause := min(max(now.Sub(tr.moved)/10, lookMin), lookMax)
	return min(max(now.Add(pause), tr.count.wait), tr.group.Expires)
}

// readGroup reads the row of a group. A count that another process stored, and that has got further, replaces
// this one.
func (k *Keeper) readGroup(ctx context.Context, tr *tracker) error {
	g, err := k.groups.Find(ctx, tr.id.String())
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
	k.mu.Lock()
	defer k.mu.Unlock()
	return (len(k.tracked)+1)*int(g.Members) <= rememberedMax
}

func (k *Keeper) noteUnsealed(id task.ID, now task.Instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for other, until := range k.unsealed {
		if now >= until {
			delete(k.unsealed, other)
		}
	}
	k.unsealed[id] = now.Add(unsealedFor)
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
