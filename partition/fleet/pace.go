package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Rows are renewed every RenewEvery and read as often; both happen more often while somebody comes or leaves.
const (
	// hurryEvery is how often rows are then read, where few members share the cost.
	hurryEvery = 250 * time.Millisecond
	// hurryEveryMember slows that down with their number: together they read at most 200 times a second.
	hurryEveryMember = 5 * time.Millisecond
	// hurryMax is how long one event makes a process hurry.
	hurryMax = 10 * time.Second
	// writeEvery is the shortest time between two writes of a row because it has something new to say.
	writeEvery = 20 * time.Millisecond
)

// Hurry makes this process read the rows more often for a while, because something else tells of a change.
func (m *Membership) Hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handover.hurried = clock.Mono(m.Clock) + hurryMax
	m.wake()
}

// Stalled is how long ago the rows were last read, or tried to be. It grows when Run makes no progress.
func (m *Membership) Stalled() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return clock.Mono(m.Clock) - m.stepped
}

func (m *Membership) stamp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stepped = clock.Mono(m.Clock)
}

// wake makes Run think again how long it pauses.
func (m *Membership) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// pause waits until the next step is due.
func (m *Membership) pause(ctx context.Context) error {
	for {
		wait := m.next() - clock.Mono(m.Clock)
		if wait <= 0 {
			return ctx.Err()
		}
		timer := m.Clock.NewTimer(wait)
		select {
		case <-timer.C():
		case <-m.kick:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// toRenew says whether our row is to be written at the next step.
func (m *Membership) toRenew(now time.Duration) bool {
	return !m.begun || now-m.renewed >= RenewEvery || m.news()
}

// news says whether our row does not say what it should.
func (m *Membership) news() bool {
	says := m.says()
	return says.State != m.written.State || says.Founder != m.written.Founder || says.View != m.written.View || !slices.Equal(says.Without, m.written.Without)
}

// next is when the next step is due.
func (m *Membership) next() time.Duration {
	news := m.news()
	due := m.renewed + RenewEvery
	if news && !m.failed {
		due = min(due, m.renewed+writeEvery)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if news || m.hurrying(clock.Mono(m.Clock)) {
		due = min(due, m.stepped+m.hurryPace())
	}
	return due
}

// hurrying says whether a change is under way that this process has a part in. It holds mu.
func (m *Membership) hurrying(now time.Duration) bool {
	h := &m.handover
	if now < h.hurried || h.declared != Ready && now-h.since < hurryMax {
		return true
	}
	forced := h.inForce != nil && now-h.forced < hurryMax
	return slices.ContainsFunc(m.peers, func(p Peer) bool {
		changing := p.State != Ready && now-p.since < hurryMax
		return p.Alive && (changing || forced && p.handsOver && p.State == Ready && p.view != h.view)
	})
}

// hurryPace is how often so many read in a hurry. It holds mu.
func (m *Membership) hurryPace() time.Duration {
	alive := 1
	for i := range m.peers {
		if m.peers[i].Alive {
			alive++
		}
	}
	return min(RenewEvery, max(hurryEvery, time.Duration(alive)*hurryEveryMember))
}
