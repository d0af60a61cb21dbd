package fleet

import (
	"slices"
	"time"
)

// Peer is what the rows hold about another process.
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
