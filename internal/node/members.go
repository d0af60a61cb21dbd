package node

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
)

// Membership is a membership that has to run, such as one by the pods of a cluster.
type Membership interface {
	partition.Membership
	// Run follows the members until its context ends.
	Run(ctx context.Context) error
	// Stalled returns how long ago Run last made progress.
	Stalled() time.Duration
}

// members is the membership of a process with the scheduler's role. If several processes use the store, their
// lease rows tell which of them are alive and which partitions they handle, whatever tells who the members
// are.
type members struct {
	partition.Membership

	rows    *fleet.Membership // nil: this process is alone
	watched Membership        // nil: there is nothing to run besides the rows
}

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

// process returns the name of this process in the rows that it acquires, which is unique per start if there
// are several processes.
func (m *members) process() string {
	if m.rows != nil {
		return m.rows.Self()
	}
	return m.Self()
}

// presence reports whether the process of that name is alive, or else gone for certain.
func (m *members) presence(process string) (here, gone bool) {
	if m.rows != nil {
		return m.rows.Presence(process)
	}
	here = slices.Contains(m.Members(), process)
	return here, !here // without rows the members never change
}

// handover returns nil for a process that is alone.
func (m *members) handover() scheduler.Handover {
	if m.rows == nil {
		return nil
	}
	return m.rows
}

// run keeps the membership up to date until ctx ends, and then deletes the row of this process.
func (m *members) run(ctx context.Context, group *errgroup.Group) {
	if m.rows != nil {
		group.Go(func() error { return m.rows.Run(ctx) })
	}
	if m.watched != nil {
		group.Go(func() error { return m.watched.Run(ctx) })
	}
}

// ready declares that this process has read all its partitions.
func (m *members) ready() {
	if m.rows != nil {
		m.rows.Declare(fleet.Ready)
	}
}

// leaving declares that this process is about to end.
func (m *members) leaving() {
	if m != nil && m.rows != nil {
		m.rows.Declare(fleet.Leaving)
	}
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
