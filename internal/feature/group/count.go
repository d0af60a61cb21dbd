package group

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

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
