package fleet

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// countedMax is for how long after a renewal began the others are sure to count this process. It is less than
// the shortest time after which a row that does not change is taken for silent (firstReadLength), by what a
// write that was decided on meanwhile may take.
const countedMax = firstReadLength - 500*time.Millisecond

// Counted returns since when the others have counted this process as a member without a break, by the
// monotonic clock, and whether they are sure to do so now: its row was renewed and theirs were read a moment
// ago. Where they may have taken this process for gone in between, since is later than before. A process that
// is joining or Leaving does not count.
func (m *Membership) Counted() (since task.Instant, ok bool) {
	now := clock.Read(m.Clock)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.counted
	ok = !c.since.IsZero() && now.Since(c.last) <= countedMax && m.handover.declared != Leaving
	return c.since, ok
}

// noteCounted notes a round in which all calls succeeded, by the clocks when it began and when the row was
// written at the latest.
func (m *Membership) noteCounted(began, renewed clock.Readings) {
	p := &m.published
	counts := m.owned && (p.State == Ready || p.Founder && p.State == Joining)
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &m.counted
	switch {
	case !counts:
		*c = counted{}
		return
	case c.since.IsZero() || renewed.Since(c.last) > countedMax:
		c.since = task.Instant(0).Add(renewed.Mono)
	}
	c.last = began
}

// Agree reports whether all others that count have declared InForce with exactly these members.
func (m *Membership) Agree(members []string) bool {
	view := View(members)
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.peers {
		if p := &m.peers[i]; p.counts() && p.view != view {
			return false
		}
	}
	return true
}
