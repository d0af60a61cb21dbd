package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// FarewellMax is the longest time that Taken waits for the others.
	FarewellMax = 6 * time.Second
	// FounderMax is for how long a founder counts that is not ready while most are: something is wrong with
	// it, and nobody fires its share.
	FounderMax = 30 * time.Second
)

// ErrNotTaken is Taken's answer when not all had taken over in time. Who leaves anyway leaves it to them:
// what it does not fire any more is late until they do.
var ErrNotTaken = errors.New("not all members have taken over")

// Peer is what the rows say of another process.
type Peer struct {
	Process string // its name, as rows of tasks have it
	Host    string // what it says to run on; empty: a row of an older version
	Group   string
	State   State
	Founder bool // it came when nobody was ready, and counts by its own word, unless it is Leaving
	Alive   bool // it renews its row; false: it was here and is silent, or has taken its row away

	handsOver bool
	view      uint64
	without   []uint32
	since     time.Duration // when it was first seen in its state
}

func (p *Peer) counts() bool { return p.State.counts(p.Founder) }

// is says whether this is a member of that name: processes are members in fleets, hosts where pods are.
func (p *Peer) is(member string) bool { return p.Process == member || p.Host != "" && p.Host == member }

// handover is what this process says of itself, guarded by Membership.mu.
type handover struct {
	declared State
	since    time.Duration
	founder  bool          // it came when nobody was ready, so that nobody fires its share in its stead
	settled  bool          // others know of it by something else than its word
	outrun   time.Duration // since when most are ready and it is not; 0: they are not
	inForce  []string      // sorted; nil: none yet
	view     uint64        // of inForce
	forced   time.Duration
	hurried  time.Duration // until when rows are read more often though none asks for it
}

// Declare says what this process is about from now on; its row says so as soon as it can be written. It
// begins as Ready unless it is declared Joining before Run. Joining is followed by Ready, once all of what is
// this process's by Members is scanned and fired. Leaving is for good.
//
// A process that joins where nobody is ready is a founder: it counts for the others at once, for there is
// nobody to take over from. It stays one until it is ready, or until Settle where there is a Group; while
// most are ready and it is not, for FounderMax.
func (m *Membership) Declare(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := &m.handover; h.declared != s && h.declared != Leaving {
		h.declared, h.since = s, clock.Mono(m.Clock)
		m.wake()
	}
}

// Settle says that others know that this process is ready by something else than its row, and need not take
// its word for it.
func (m *Membership) Settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := &m.handover; h.declared == Ready && !h.settled {
		h.settled = true
		m.wake()
	}
}

// Declared is the newest state that was declared.
func (m *Membership) Declared() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handover.declared
}

// InForce says that this process fires exactly what is its own among these members, and is warm with all of
// it. The others learn it from the row: who leaves waits for it, and so does who gives partitions away for
// another reason (Follows).
func (m *Membership) InForce(members []string) {
	members = slices.Compact(slices.Sorted(slices.Values(members)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := &m.handover; !slices.Equal(h.inForce, members) {
		h.inForce, h.view, h.forced = members, View(members), clock.Mono(m.Clock)
		m.wake()
	}
}

// Follows says whether a member's row shows that it fires by exactly these members (InForce there). member is
// as in those: a process, or a host. It is false for one that is silent, or of a version that does not say.
func (m *Membership) Follows(member string, members []string) bool {
	view := View(members)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.peers, func(p Peer) bool { return p.Alive && p.is(member) && p.view == view })
}

// Peers are the other processes that were ever seen, sorted by name; of those that are gone a bounded
// number is remembered. The slice belongs to the caller.
func (m *Membership) Peers() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.peers)
}

// Heard returns a channel that is closed when what Peers, Presence, Follows or Taken tell may be different.
func (m *Membership) Heard() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard
}

// Presence tells what is known of a process by its name: whether it renews its row, whatever its state, and
// if not, whether it is gone for sure, because it did before. Neither means that it was never heard of; it
// may have come a moment ago.
func (m *Membership) Presence(process string) (here, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if process == m.Config.Self {
		return true, false
	}
	i, seen := slices.BinarySearchFunc(m.peers, process, func(p Peer, name string) int { return strings.Compare(p.Process, name) })
	return seen && m.peers[i].Alive, seen && !m.peers[i].Alive
}

// Taken waits until the others have taken over what is this process's: every one that is ready shows that it
// fires without it. Without any, it waits for those that join; without them for nobody. It is called after
// Declare(Leaving), while Run goes on. It gives up with ErrNotTaken after FarewellMax, or at the end of ctx.
func (m *Membership) Taken(ctx context.Context) error {
	ctx, done := clock.Within(ctx, m.Clock, FarewellMax)
	defer done()
	for {
		heard := m.Heard()
		waiting := m.untaken()
		if len(waiting) == 0 {
			return nil
		}
		select {
		case <-heard:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", ErrNotTaken, strings.Join(waiting, ", "))
		}
	}
}

// untaken are the processes that have still to take over from this one.
func (m *Membership) untaken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := mark(m.Config.Self)
	var ready, joining []string
	heirs := false
	for i := range m.peers {
		p := &m.peers[i]
		if !p.Alive || !p.handsOver || p.State == Leaving {
			continue
		}
		heirs = heirs || p.counts()
		switch {
		case slices.Contains(p.without, own):
		case p.counts():
			ready = append(ready, p.Process)
		default:
			joining = append(joining, p.Process)
		}
	}
	if heirs {
		return ready
	}
	return joining
}

// says is what our row is to say now.
func (m *Membership) says() record {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.handover
	r := record{State: h.declared, Founder: h.founds(m.Group != ""), Host: m.Host, Group: m.Group}
	if h.inForce != nil {
		r.View, r.Without = h.view, m.without()
	}
	return r
}

// withoutMax bounds what a row says of those that leave; the rest of them is told later, or waits for
// FarewellMax.
const withoutMax = 256

// without are the marks of those that leave and are not in force here any more.
func (m *Membership) without() (marks []uint32) {
	for i := range m.peers {
		p := &m.peers[i]
		if p.Alive && p.State == Leaving && len(marks) < withoutMax && !m.handover.forces(p) {
			marks = append(marks, mark(p.Process))
		}
	}
	return marks
}

// forces says whether that process is among the members in force.
func (h *handover) forces(p *Peer) bool {
	_, process := slices.BinarySearch(h.inForce, p.Process)
	_, host := slices.BinarySearch(h.inForce, p.Host)
	return process || host
}

// hear takes in what the rows say. It holds mu.
func (m *Membership) hear(peers []Peer) {
	h := &m.handover
	h.compare(peers, clock.Mono(m.Clock))
	if m.peers != nil && slices.EqualFunc(peers, m.peers, samePeer) {
		return // the first look is heard though there be nobody
	}
	m.peers = peers
	close(m.heard)
	m.heard = make(chan struct{})
}

// compare makes a founder of a process that is not ready, or none any more, by how many others are.
func (h *handover) compare(peers []Peer, now time.Duration) {
	ready, all := 0, 1
	for i := range peers {
		if p := &peers[i]; p.Alive && p.counts() {
			all++
			if p.State == Ready {
				ready++
			}
		}
	}
	switch {
	case h.declared != Joining:
	case ready == 0:
		h.founder, h.outrun = true, 0
	case 2*ready <= all:
		h.outrun = 0
	case h.outrun == 0:
		h.outrun = now
	case now-h.outrun >= FounderMax:
		h.founder = false
	}
}

// founds says whether the row says that it is a founder's. settles: there will be something else to go by.
func (h *handover) founds(settles bool) bool {
	return h.founder && (h.declared == Joining || h.declared == Ready && settles && !h.settled)
}

func samePeer(a, b Peer) bool {
	return a.Process == b.Process && a.Host == b.Host && a.Group == b.Group && a.State == b.State && a.Founder == b.Founder && a.Alive == b.Alive &&
		a.handsOver == b.handsOver && a.view == b.view && a.since == b.since && slices.Equal(a.without, b.without)
}
