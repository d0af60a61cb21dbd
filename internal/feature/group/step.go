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

const (
	// readMax is how many members one read asks for at most.
	readMax = 1000
	// rememberedMax bounds the members whose ends a process remembers, of all groups, at one byte each.
	rememberedMax = 64 << 20
)

// count is how far a process has counted a group. It is a copy of what the rows say: what is lost is read
// again.
type count struct {
	cursor uint32
	ended  task.Outcomes
	// known has the ends that were seen beyond the cursor, by index; nil: none. Without remembers it stays
	// so.
	known     []task.State
	remembers bool
	// wait is until when the first member that has not ended need not be looked at, if nobody tells of it.
	wait task.Instant
}

// lookFor is how long a member that is due later is left alone, unless somebody tells of its end.
const lookFor = time.Minute

// advance moves the cursor over members that have ended. It reads one row first, and more each time as long
// as all of them have ended, so that it costs little while one member holds it.
func (c *count) advance(ctx context.Context, s Store, g *Group, now task.Instant) error {
	for size := uint32(1); c.cursor < g.Members; size = min(size*8, readMax) {
		c.skipKnown(g.Members)
		from, to := c.cursor, min(c.cursor+size, g.Members)
		if from == to {
			return nil
		}
		rows, err := s.Tasks(ctx, g.IDs(from, to))
		if err != nil {
			return err
		}
		for i := range rows {
			if state := endOf(&rows[i]); state != task.Unknown {
				c.note(from+uint32(i), state, g.Members)
			}
		}
		c.skipKnown(g.Members)
		if c.cursor < to {
			c.wait = waitFor(&rows[c.cursor-from], now)
			return nil
		}
	}
	return nil
}

// waitFor returns until when a member that has not ended need not be looked at.
func waitFor(row *task.Task, now task.Instant) task.Instant {
	if row.State.IsWaiting() {
		return min(row.Wake, now.Add(lookFor))
	}
	return 0
}

// endOf returns the end of a member; task.Unknown if it has not ended. Its row is stored before the group
// counts it, and kept until the group is forgotten: if there is none, it was deleted, with its lambda or
// after it had ended.
func endOf(row *task.Task) task.State {
	switch {
	case row.State.IsEnd():
		return row.State
	case row.ID.IsZero():
		return task.Dropped
	}
	return task.Unknown
}

// note remembers the end of a member.
func (c *count) note(index uint32, state task.State, members uint32) {
	switch {
	case index < c.cursor || index >= members:
	case index == c.cursor:
		c.ended[state]++
		c.cursor++
	case c.remembers:
		if uint32(len(c.known)) < members {
			c.known = append(c.known, make([]task.State, members-uint32(len(c.known)))...)
		}
		c.known[index] = state
	}
}

// skipKnown moves the cursor over members whose end is known.
func (c *count) skipKnown(members uint32) {
	for c.cursor < min(members, uint32(len(c.known))) && c.known[c.cursor] != task.Unknown {
		c.ended[c.known[c.cursor]]++
		c.cursor++
	}
}
