package node

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
)

// Membership is one that has to be run, such as one by the pods of a cluster.
type Membership interface {
	partition.Membership
	// Run follows the members until its context ends.
	Run(ctx context.Context) error
	// Stalled is how long ago Run last got on.
	Stalled() time.Duration
}

// members are the processes that share the partitions, as one with the scheduler's role knows them. Where
// several processes are over the store their lease rows tell who is there, and what they fire; who the
// members are may come from elsewhere.
type members struct {
	partition.Membership

	rows    *fleet.Membership // nil: this process is alone over the store
	watched Membership        // nil unless there is something to run besides the rows
}

func (n *Node) newMembers(c *Config) *members {
	m := &members{Membership: c.Membership}
	if c.shared {
		m.rows = n.newRows(c)
		switch {
		case c.Over != nil:
			m.watched = c.Over(m.rows)
			m.Membership = m.watched
		case c.Membership == nil:
			m.Membership = m.rows
		}
	}
	return m
}

func (n *Node) newRows(c *Config) *fleet.Membership {
	host := cmp.Or(c.Name, nameDefault)
	if c.Membership != nil {
		host = c.Membership.Self() // by which the others look for it
	}
	rows := fleet.New(fleet.Config{
		Rows: n.store, Self: fleet.NewName(cmp.Or(c.Name, nameDefault), c.Clock.Uint64()), Host: host, Group: c.Group,
		Clock: c.Clock, Log: c.Log, Hooks: n.fleetHooks(),
	})
	rows.Declare(fleet.Joining)
	return rows
}

// process is the name of this process in rows that it acquires: unique per start, where there is more than
// one.
func (m *members) process() string {
	if m.rows != nil {
		return m.rows.Self()
	}
	return m.Self()
}

// presence is what is known of a process by that name.
func (m *members) presence(process string) (here, gone bool) {
	if m.rows != nil {
		return m.rows.Presence(process)
	}
	here = slices.Contains(m.Members(), process)
	return here, !here // without rows the members never change
}

// handover is nil for a process that is alone.
func (m *members) handover() scheduler.Handover {
	if m.rows == nil {
		return nil
	}
	return m.rows
}

// run keeps the rows, and whatever else tells who the members are. When it ends the rows of this process are
// gone.
func (m *members) run(ctx context.Context, start func(func() error)) {
	if m == nil {
		return
	}
	if m.rows != nil {
		start(func() error { return m.rows.Run(ctx) })
	}
	if m.watched != nil {
		start(func() error { return m.watched.Run(ctx) })
	}
}

// ready tells the others that what is ours is warm.
func (m *members) ready() {
	if m.rows != nil {
		m.rows.Declare(fleet.Ready)
	}
}

// leaving tells the others that this process is about to end.
func (m *members) leaving() {
	if m != nil && m.rows != nil {
		m.rows.Declare(fleet.Leaving)
	}
}

// farewell waits, after leaving, until the others have taken over, and reports whether there are any that
// have. It is bounded by fleet.FarewellMax.
func (n *Node) farewell(ctx context.Context) (taken bool) {
	if n.members == nil || n.members.rows == nil || n.members.Changed() == nil {
		return false // nobody takes over from this one
	}
	began := clock.Mono(n.clock)
	if err := n.members.rows.Taken(ctx); err != nil {
		n.log.WarnContext(ctx, "leaving before all others have taken over: what is due until they have is late", slog.Any("error", err))
		return false
	}
	others := false
	for _, p := range n.members.rows.Peers() {
		others = others || p.Alive
	}
	if others {
		n.log.InfoContext(ctx, "the others have taken over", slog.Duration("after", clock.Mono(n.clock)-began))
	}
	return others
}
