package fleet

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Rows are renewed and read every RenewEvery, and more often while a process joins or leaves.
const (
	// fastEvery is how often rows are then read in a small fleet.
	fastEvery = 250 * time.Millisecond
	// fastEveryMember slows that down in a large one: all members together read at most 200 times a second.
	fastEveryMember = 5 * time.Millisecond
	// fastMax is how long one event makes a process read more often.
	fastMax = 10 * time.Second
	// writeEvery is the shortest time between two writes of a row whose contents changed.
	writeEvery = 20 * time.Millisecond
)

// Hurry makes this process read the rows more often for a while, because another source reported a change.
func (m *Membership) Hurry() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.handover.fastUntil = clock.Mono(m.Clock) + fastMax
	m.wake()
}

// Stalled returns how long ago the rows were last read, or a read failed. It grows when Run makes no
// progress.
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

// renewalDue reports whether the next step has to write our row.
func (m *Membership) renewalDue(now time.Duration) bool {
	return !m.attempted || now-m.renewed >= RenewEvery || m.outdated()
}

// outdated reports whether our row does not say what it should.
func (m *Membership) outdated() bool {
	want, have := m.desired(), &m.published
	return want.State != have.State || want.Founder != have.Founder || want.View != have.View || !slices.Equal(want.Without, have.Without)
}

// next returns when the next step is due.
func (m *Membership) next() time.Duration {
	outdated := m.outdated()
	due := m.renewed + RenewEvery
	if outdated && !m.failed {
		due = min(due, m.renewed+writeEvery)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if outdated || m.readsFast(clock.Mono(m.Clock)) {
		due = min(due, m.stepped+m.fastPace())
	}
	return due
}

// readsFast reports whether a change is under way that concerns this process. The caller holds mu.
func (m *Membership) readsFast(now time.Duration) bool {
	h := &m.handover
	if now < h.fastUntil || h.declared != Ready && now-h.since < fastMax {
		return true
	}
	recent := h.inForce != nil && now-h.inForceSince < fastMax
	return slices.ContainsFunc(m.peers, func(p Peer) bool {
		changing := p.State != Ready && now-p.since < fastMax
		return p.Alive && (changing || recent && p.handsOver && p.State == Ready && p.view != h.view)
	})
}

// fastPace returns how often to read while a change is under way. The caller holds mu.
func (m *Membership) fastPace() time.Duration {
	alive := 1
	for i := range m.peers {
		if m.peers[i].Alive {
			alive++
		}
	}
	return min(RenewEvery, max(fastEvery, time.Duration(alive)*fastEveryMember))
}
