package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// Run renews our row and reads the others until ctx ends. Then it deletes our row, so that the others need
// not wait for its lease to end.
func (m *Membership) Run(ctx context.Context) error {
	for {
		if err := m.step(ctx); err != nil && ctx.Err() == nil {
			m.Log.WarnContext(ctx, "membership not renewed", slog.Any("error", err))
		}
		if m.pause(ctx) != nil {
			m.leave(context.WithoutCancel(ctx))
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}

// step renews our row if that is due, and reads the others.
func (m *Membership) step(ctx context.Context) error {
	if m.renewalDue(clock.Mono(m.Clock)) {
		return m.round(ctx)
	}
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	return m.read(ctx)
}

// round renews our row and reads the others, whether or not the renewal succeeded.
func (m *Membership) round(ctx context.Context) error {
	ctx, done := clock.Within(ctx, m.Clock, callMax)
	defer done()
	began := clock.Read(m.Clock)
	within, stop := m.bound(ctx, writeMax)
	err := m.renew(within)
	stop()
	renewed := clock.Read(m.Clock)
	m.failed = err != nil && !errors.Is(err, errNameTaken)
	if m.failed {
		m.failures++
	} else {
		m.storeAway = m.storeAway || m.isStoreAway(clock.Mono(m.Clock))
		m.answered = m.renewed
	}
	err = errors.Join(err, m.read(ctx))
	if err == nil {
		m.noteCounted(began, renewed)
	}
	return err
}

// bound limits a call to the store.
func (m *Membership) bound(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if m.failures >= slowAfter {
		limit = callMax
	}
	return clock.Within(ctx, m.Clock, limit)
}

func (m *Membership) isStoreAway(now time.Duration) bool {
	return m.failures > failuresMax && now-m.answered >= awayAfter
}

// read reads the rows of the others and publishes what follows from them.
func (m *Membership) read(ctx context.Context) error {
	defer m.stamp()
	within, stop := m.bound(ctx, readMax)
	rows, err := m.Rows.Controls(within, Kind)
	stop()
	if err != nil {
		m.failures++
		return fmt.Errorf("read the members: %w", err)
	}
	if len(rows) == 0 { // though our own was just written
		return errEmpty
	}
	if m.owned {
		before := len(rows)
		rows = slices.DeleteFunc(rows, func(row store.Control) bool { return row.Name == m.Config.Self })
		m.rowDeleted = m.rowDeleted || len(rows) == before
	}
	m.look(ctx, rows)
	m.publish()
	return m.deleteSilent(ctx)
}

var errEmpty = errors.New("the store returned no member rows; keeping the last known members")

// look judges the rows of the others, and reports clocks that are ahead of ours.
func (m *Membership) look(ctx context.Context, rows []store.Control) {
	now := clock.Mono(m.Clock)
	m.others.storeAway = m.storeAway || m.isStoreAway(now)
	if !m.failed {
		m.failures, m.storeAway = 0, false
	}
	clocksAhead := m.others.look(rows, now, m.Clock.Now(), m.rowDeleted)
	m.rowDeleted = false
	for _, ahead := range clocksAhead {
		if ahead.first {
			m.Log.WarnContext(ctx, "a member's clock is ahead of ours; worker leases depend on both",
				slog.String("member", ahead.name), slog.Duration("ahead_by", ahead.by))
		}
		if m.Hooks.ClockAhead != nil {
			m.Hooks.ClockAhead(ahead.name, ahead.by)
		}
	}
}

// publish updates Peers and Members from the rows.
func (m *Membership) publish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	peers := m.others.peers(m.Config.Self)
	m.setPeers(peers)
	if m.handover.declared == Leaving {
		return
	}
	var members []string
	for i := range peers {
		if peers[i].counts() {
			members = append(members, peers[i].Process)
		}
	}
	if m.owned {
		members = append(members, m.Config.Self)
	}
	slices.Sort(members)
	if len(members) == 0 || slices.Equal(members, m.members) {
		return
	}
	m.members = members
	close(m.changed)
	m.changed = make(chan struct{})
}

// deleteSilent deletes rows that have been silent for long, unless they change at this moment.
func (m *Membership) deleteSilent(ctx context.Context) error {
	for _, row := range m.others.toDelete(clock.Mono(m.Clock), m.Config.Self) {
		if err := m.Rows.DeleteControl(ctx, row); err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("delete the row of the silent member %s: %w", row.Name, err)
		}
	}
	return nil
}
