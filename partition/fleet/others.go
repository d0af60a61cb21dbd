package fleet

import (
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// others is what a process knows of the members besides itself. Time is its own monotonic time.
type others struct {
	seen map[string]sight
	read time.Duration // when the rows were last read
	once bool          // they were read at all
}

// sight is what is known of one member.
type sight struct {
	run     string
	beat    uint64
	version uint64        // of the row
	still   time.Duration // since when its row is unchanged
	dead    bool          // it was unchanged for too long, and has not changed since
	absent  bool          // its row is gone, which is not believed
	skewed  bool          // its clock was ahead of ours
}

// skew is a clock that is ahead of ours by at least so much.
type skew struct {
	name  string
	by    time.Duration
	first bool // it was not before
}

// look takes in the rows that were read at now. robbed says that our own row had been deleted by somebody
// else: then the absence of others means nothing either, and they have the rest of their lease to come back.
func (o *others) look(rows []store.Control, now time.Duration, wall task.Instant, robbed bool) (ahead []skew) {
	blind := o.once && now-o.read > gapMax
	next := make(map[string]sight, len(rows))
	for i := range rows {
		row := &rows[i]
		r := decode(row)
		s, known := o.seen[row.Name]
		moved := !known || s.run != r.Run || s.beat != r.Beat || r.Beat == 0 && s.version != row.Version
		switch {
		case !known && !o.once:
			s = sight{still: now - (Length - strangerFor)}
		case moved:
			s = sight{still: now, skewed: s.skewed}
		case blind:
			s.still = now
		}
		s.version, s.run, s.beat, s.absent = row.Version, r.Run, r.Beat, false
		if by := task.Instant(r.Wall).Sub(wall); moved {
			if by > task.ClockBound {
				ahead = append(ahead, skew{row.Name, by, !s.skewed})
			}
			s.skewed = by > task.ClockBound
		}
		next[row.Name] = s
	}
	for name, s := range o.seen {
		if _, there := next[name]; !there && !s.dead && (robbed || s.absent) {
			s.absent = true
			next[name] = s
		}
	}
	for name, s := range next {
		s.dead = s.dead || now-s.still >= Length
		next[name] = s
	}
	o.seen, o.read, o.once = next, now, true
	return ahead
}

// alive are the names of those who are not silent.
func (o *others) alive() []string {
	var names []string
	for name, s := range o.seen {
		if !s.dead {
			names = append(names, name)
		}
	}
	return names
}

// toBury are the rows of members that have been silent for long, and one of the name self as soon as it is silent.
func (o *others) toBury(now time.Duration, self string) (rows []store.Control) {
	for name, s := range o.seen {
		if s.dead && !s.absent && (name == self || now-s.still >= buriedAfter) {
			rows = append(rows, store.Control{Kind: Kind, Name: name, Version: s.version})
		}
	}
	return rows
}
