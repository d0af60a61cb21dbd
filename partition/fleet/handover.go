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
	// FounderMax is how long a founder that is not ready counts while most others are ready: something is
	// wrong with it, and nobody handles its share.
	FounderMax = 30 * time.Second
)

// ErrNotTaken is returned by Taken when not all members took over in time. If the process ends anyway, its
// due tasks are late until they do.
var ErrNotTaken = errors.New("not all members have taken over")

// Declare sets the state of this process, which its row shows as soon as it can be written. The state is
// Ready unless Joining was declared before Run. Declare Ready after Joining when all partitions that this
// process owns by Members have been read. Leaving is final.
//
// A process that joins while nobody is ready is a founder: it counts for the others at once, since there is
// nobody to take over from. It remains one until it is ready, or until Settle if there is a Group, but not
// for longer than FounderMax while most others are ready and it is not.
func (m *Membership) Declare(s State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := &m.handover; h.declared != s && h.declared != Leaving {
		h.declared, h.since = s, clock.Mono(m.Clock)
		m.wake()
	}
}

// Settle ends a Ready process's time as a founder: another source than its row tells the others that it is
// ready.
func (m *Membership) Settle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := &m.handover; h.declared == Ready && !h.settled {
		h.settled = true
		m.wake()
	}
}

// Declared returns the last state that was declared.
func (m *Membership) Declared() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.handover.declared
}

// InForce declares that this process is warm, and handles exactly the partitions that it owns among these
// members. The others read that from its row (Follows); a leaving process and one that gives partitions away
// wait for it.
func (m *Membership) InForce(members []string) {
	members = slices.Compact(slices.Sorted(slices.Values(members)))
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := &m.handover; !slices.Equal(h.inForce, members) {
		h.inForce, h.view, h.inForceSince = members, View(members), clock.Mono(m.Clock)
		m.wake()
	}
}

// Follows reports whether a member, named by its process or host, has declared InForce with exactly these
// members. It returns false for a silent process, and for a version that does not declare it.
func (m *Membership) Follows(member string, members []string) bool {
	view := View(members)
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.ContainsFunc(m.peers, func(p Peer) bool { return p.Alive && p.is(member) && p.view == view })
}

// Peers returns the other processes ever seen, sorted by name; it remembers a bounded number of those that
// are gone. The slice belongs to the caller.
func (m *Membership) Peers() []Peer {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.peers)
}

// Heard returns a channel that is closed when Peers, Presence, Follows or Taken may answer differently.
func (m *Membership) Heard() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.heard
}

// Presence reports whether a process, by its name, is alive in any state, or else gone for certain. Neither
// means that it was never seen; it may have started a moment ago.
func (m *Membership) Presence(process string) (here, gone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if process == m.Config.Self {
		return true, false
	}
	i, seen := slices.BinarySearchFunc(m.peers, process, func(p Peer, name string) int { return strings.Compare(p.Process, name) })
	return seen && m.peers[i].Alive, seen && !m.peers[i].Alive
}

// Taken waits until the others have taken over from this process: each member shows that it acts on a view
// without it. If there are no other members, it waits for the joining processes; if there are none of those
// either, it returns at once. Call it after Declare(Leaving), while Run goes on. It returns ErrNotTaken after
// FarewellMax, or at the end of ctx.
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

// untaken returns the processes that have yet to take over from this one.
func (m *Membership) untaken() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	own := mark(m.Config.Self)
	var members, joining []string
	anyMember := false
	for i := range m.peers {
		p := &m.peers[i]
		if !p.Alive || !p.handsOver || p.State == Leaving {
			continue
		}
		anyMember = anyMember || p.counts()
		switch {
		case slices.Contains(p.without, own):
		case p.counts():
			members = append(members, p.Process)
		default:
			joining = append(joining, p.Process)
		}
	}
	if anyMember {
		return members
	}
	return joining
}

// desired returns what our row should hold now.
func (m *Membership) desired() record {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := &m.handover
	founder := h.founder && (h.declared == Joining || h.declared == Ready && m.Group != "" && !h.settled)
	r := record{State: h.declared, Founder: founder, Host: m.Host, Group: m.Group, Version: m.Version}
	if h.inForce != nil {
		r.View, r.Without = h.view, m.without()
	}
	return r
}

// withoutMax bounds the leaving processes that a row names. The others are named later, or wait for
// FarewellMax.
const withoutMax = 256

// without returns the marks of the leaving processes that are no longer in force here.
func (m *Membership) without() (marks []uint32) {
	for i := range m.peers {
		p := &m.peers[i]
		if p.Alive && p.State == Leaving && len(marks) < withoutMax && !slices.ContainsFunc(m.handover.inForce, p.is) {
			marks = append(marks, mark(p.Process))
		}
	}
	return marks
}

// setPeers replaces the peers by those that the rows show now. The caller holds mu.
func (m *Membership) setPeers(peers []Peer) {
	m.handover.updateFounder(peers, clock.Mono(m.Clock))
	if m.peers != nil && slices.EqualFunc(peers, m.peers, samePeer) {
		return // the first reading closes heard even if there are no others
	}
	m.peers = peers
	close(m.heard)
	m.heard = make(chan struct{})
}

// updateFounder makes a joining process a founder while nobody else is ready, and ends that after FounderMax
// in which most others were.
func (h *handover) updateFounder(peers []Peer, now time.Duration) {
	ready, all := 0, 1
	for i := range peers {
		if p := &peers[i]; p.counts() {
			all++
			if p.State == Ready {
				ready++
			}
		}
	}
	switch {
	case h.declared != Joining:
	case ready == 0:
		h.founder, h.overtakenSince = true, 0
	case 2*ready <= all:
		h.overtakenSince = 0
	case h.overtakenSince == 0:
		h.overtakenSince = now
	case now-h.overtakenSince >= FounderMax:
		h.founder = false
	}
}
