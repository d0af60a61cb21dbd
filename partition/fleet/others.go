package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// others is what a process knows of the members besides itself. Time is its own monotonic time.
type others struct {
	seen map[string]sight
	gone map[string]Peer // processes whose rows were there and are no more, by name
	read time.Duration   // when the rows were last read
	once bool            // they were read at all
	mute bool            // our own row could not be written for a while, so that silence means nothing
}

// goneMax bounds how many are remembered that are no more. Beyond it all are forgotten and are strangers
// again.
const goneMax = 4096

// sight is what is known of one member.
type sight struct {
	record

	version uint64        // of the row
	still   time.Duration // since when its row is unchanged
	since   time.Duration // when it was first seen in its state
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
	blind := o.once && (o.mute || now-o.read > gapMax)
	next := make(map[string]sight, len(rows))
	for i := range rows {
		row := &rows[i]
		r := decode(row)
		s, known := o.seen[row.Name]
		moved := !known || s.Run != r.Run || s.Beat != r.Beat || r.Beat == 0 && s.version != row.Version
		since := s.since
		if !known || s.Run != r.Run || s.State != r.State {
			since = now
		}
		switch {
		case !known && !o.once:
			s = sight{still: now - (Length - strangerFor)}
		case moved:
			s = sight{still: now, skewed: s.skewed}
		case blind:
			s.still = now
		}
		s.record, s.version, s.since, s.absent = r, row.Version, since, false
		if by := task.Instant(r.Wall).Sub(wall); moved {
			if by > task.ClockBound {
				ahead = append(ahead, skew{row.Name, by, !s.skewed})
			}
			s.skewed = by > task.ClockBound
		}
		next[row.Name] = s
	}
	for name, s := range o.seen {
		if _, there := next[name]; there {
			continue
		}
		if !s.dead && (robbed || s.absent) {
			s.absent = true
			next[name] = s
		} else {
			o.bid(Peer{Process: name, Host: s.Host, Group: s.Group})
		}
	}
	for name, s := range next {
		s.dead = s.dead || now-s.still >= Length
		next[name] = s
		delete(o.gone, name)
	}
	o.seen, o.read, o.once = next, now, true
	return ahead
}

// bid remembers one whose row is gone.
func (o *others) bid(p Peer) {
	if o.gone == nil || len(o.gone) >= goneMax {
		o.gone = map[string]Peer{}
	}
	o.gone[p.Process] = p
}

// members are the names of those who are not silent and count.
func (o *others) members() []string {
	var names []string
	for name, s := range o.seen {
		if !s.dead && s.counts() {
			names = append(names, name)
		}
	}
	return names
}

// peers is what is known, sorted by name, without the process self.
func (o *others) peers(self string) []Peer {
	all := make([]Peer, 0, len(o.seen)+len(o.gone))
	for name, s := range o.seen {
		if name != self {
			all = append(all, Peer{
				Process: name, Host: s.Host, Group: s.Group, Alive: !s.dead, State: s.State, Founder: s.Founder,
				handsOver: s.handsOver(), view: s.View, without: s.Without, since: s.since,
			})
		}
	}
	for name, p := range o.gone {
		if name != self {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.Process, b.Process) })
	return all
}

// toBury are the rows of members that have been silent for long, and one of the name self as soon as it is
// silent.
func (o *others) toBury(now time.Duration, self string) (rows []store.Control) {
	for name, s := range o.seen {
		if s.dead && !s.absent && (name == self || now-s.still >= buriedAfter) {
			rows = append(rows, store.Control{Kind: Kind, Name: name, Version: s.version})
		}
	}
	return rows
}
