package fleet

import (
	"cmp"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// others is what this process knows of the rows besides its own. Times are its own monotonic time.
type others struct {
	seen      map[string]observation
	gone      map[string]Peer // processes whose rows were deleted, by name
	read      time.Duration   // when the rows were last read
	once      bool            // the rows were read at least once
	storeAway bool            // the store did not answer for a while, so that unchanged rows mean nothing
}

// goneMax bounds gone. Beyond it all are forgotten, and count as never seen.
const goneMax = 4096

// observation is the last state of one row.
type observation struct {
	record

	version   uint64        // of the row
	unchanged time.Duration // since when the row has not changed
	since     time.Duration // when the process was first seen in its state
	silent    bool          // unchanged for too long
	missing   bool          // the row is not there, which is not believed yet
	ahead     bool          // its clock was ahead of ours
}

// skew is a clock that is ahead of ours by at least that much.
type skew struct {
	name  string
	by    time.Duration
	first bool // it was not ahead before
}

// look takes in the rows read at now, and returns the clocks that are ahead. rowDeleted says that somebody
// had deleted our own row: then missing rows of others mean nothing either, and they keep the rest of their
// lease.
func (o *others) look(rows []store.Control, now time.Duration, wall task.Instant, rowDeleted bool) (ahead []skew) {
	blind := o.once && (o.storeAway || now-o.read > gapMax)
	next := make(map[string]observation, len(rows))
	for i := range rows {
		row := &rows[i]
		r := decode(row)
		s, known := o.seen[row.Name]
		renewed := !known || s.Run != r.Run || s.Beat != r.Beat || r.Beat == 0 && s.version != row.Version
		since := s.since
		if !known || s.Run != r.Run || s.State != r.State {
			since = now
		}
		switch {
		case !known && !o.once:
			s = observation{unchanged: now - (Length - firstReadLength)}
		case renewed:
			s = observation{unchanged: now, ahead: s.ahead}
		case blind:
			s.unchanged = now
		}
		s.record, s.version, s.since, s.missing = r, row.Version, since, false
		if by := task.Instant(r.Wall).Sub(wall); renewed {
			if by > task.ClockBound {
				ahead = append(ahead, skew{row.Name, by, !s.ahead})
			}
			s.ahead = by > task.ClockBound
		}
		next[row.Name] = s
	}
	for name, s := range o.seen {
		if _, there := next[name]; there {
			continue
		}
		if !s.silent && (rowDeleted || s.missing) {
			s.missing = true
			next[name] = s
		} else {
			o.rememberGone(Peer{Process: name, Host: s.Host, Group: s.Group})
		}
	}
	for name, s := range next {
		s.silent = s.silent || now-s.unchanged >= Length
		next[name] = s
		delete(o.gone, name)
	}
	o.seen, o.read, o.once = next, now, true
	return ahead
}

func (o *others) rememberGone(p Peer) {
	if o.gone == nil || len(o.gone) >= goneMax {
		o.gone = map[string]Peer{}
	}
	o.gone[p.Process] = p
}

// peers returns all known processes but self, sorted by name.
func (o *others) peers(self string) []Peer {
	all := make([]Peer, 0, len(o.seen)+len(o.gone))
	for name, s := range o.seen {
		if name != self {
			all = append(all, Peer{
				Process: name, Host: s.Host, Group: s.Group, Version: s.Version, Alive: !s.silent, State: s.State, Founder: s.Founder,
				handsOver: s.Format >= format, view: s.View, without: s.Without, since: s.since,
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

// toDelete returns the rows that have been silent for long, and a silent one under the name self at once.
func (o *others) toDelete(now time.Duration, self string) (rows []store.Control) {
	for name, s := range o.seen {
		if s.silent && !s.missing && (name == self || now-s.unchanged >= deleteAfter) {
			rows = append(rows, store.Control{Kind: Kind, Name: name, Version: s.version})
		}
	}
	return rows
}

// Peer is what the rows say about another process.
type Peer struct {
	Process string // its name, as in rows of tasks
	Host    string // empty: written by an older version
	Group   string
	Version string // of its program; empty: written by an older version
	State   State
	Founder bool // it joined when nobody was ready, and counts unless it is Leaving
	Alive   bool // it renews its row; false: it was there, and is silent or has deleted its row

	handsOver bool // it takes part in planned hand-overs; older versions do not
	view      uint64
	without   []uint32
	since     time.Duration // when it was first seen in its state
}

// counts reports whether the process is a member.
func (p *Peer) counts() bool {
	return p.Alive && (p.State == Ready || p.Founder && p.State == Joining)
}

// is reports whether the process is the member of that name: members are processes, or hosts if those are
// pods.
func (p *Peer) is(member string) bool { return p.Process == member || p.Host != "" && p.Host == member }

func samePeer(a, b Peer) bool {
	return a.Process == b.Process && a.Host == b.Host && a.Group == b.Group && a.Version == b.Version && a.State == b.State && a.Founder == b.Founder &&
		a.Alive == b.Alive && a.handsOver == b.handsOver && a.view == b.view && a.since == b.since && slices.Equal(a.without, b.without)
}
