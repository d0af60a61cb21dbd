package node

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition/fleet"
)

func (n *Node) newMembers(c *Config) *members {
	m := &members{Membership: c.Membership}
	if !c.shared {
		return m
	}
	host := cmp.Or(c.Name, nameDefault)
	if c.Membership != nil {
		host = c.Membership.Self() // by which the others look for it
	}
	m.rows = fleet.New(fleet.Config{
		Rows: n.store, Self: fleet.NewName(cmp.Or(c.Name, nameDefault), c.Clock.Uint64()), Host: host, Group: c.Group, Version: n.metrics.version(),
		Clock: c.Clock, Log: c.Log, Hooks: n.fleetHooks(),
	})
	m.rows.Declare(fleet.Joining)
	switch {
	case c.Over != nil:
		m.watched = c.Over(m.rows)
		m.Membership = m.watched
	case c.Membership == nil:
		m.Membership = m.rows
	}
	return m
}

// process returns the name of this process in the rows that it enqueues; empty without the scheduler's role.
func (n *Node) process() string {
	if n.members == nil {
		return ""
	}
	return n.members.process()
}

// farewell waits until the others have taken over from this process, for fleet.FarewellMax at most. It
// reports whether there are others and all of them have.
func (n *Node) farewell(ctx context.Context) (taken bool) {
	if n.members == nil || n.members.rows == nil || n.members.Changed() == nil {
		return false // nobody takes over from this process
	}
	began := clock.Mono(n.clock)
	if err := n.members.rows.Taken(ctx); err != nil {
		n.log.WarnContext(ctx, "leaving before all others have taken over; tasks due until then are late", slog.Any("error", err))
		return false
	}
	if !slices.ContainsFunc(n.members.rows.Peers(), func(p fleet.Peer) bool { return p.Alive }) {
		return false
	}
	n.log.InfoContext(ctx, "the others have taken over", slog.Duration("after", clock.Mono(n.clock)-began))
	return true
}
