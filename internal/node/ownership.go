package node

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
)

const (
	// unownedAfter is how long a member may fail to show that it handles its partitions until they count as
	// unowned.
	unownedAfter = 10 * time.Second
	// checkOwnersEvery is how often that is checked.
	checkOwnersEvery = 2 * time.Second
)

// watchOwners counts the unowned partitions until ctx ends.
func (n *Node) watchOwners(ctx context.Context) error {
	s := lateOwners{since: map[string]time.Duration{}}
	for {
		share, now := n.scheduler.Assignment(), clock.Mono(n.clock)
		unowned := s.unowned(&share, n.members.follows(&share), now)
		if n.NotReady() != "" {
			unowned = 0 // the others do not count this process, and so have other views
		}
		n.metrics.unowned.Set(float64(unowned))
		if clock.Sleep(ctx, n.clock, checkOwnersEvery) != nil {
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}

// lateOwners are the members that do not handle their partitions, and since when.
type lateOwners struct {
	since map[string]time.Duration
}

// unowned counts the partitions of members that have been late for too long, this process included.
func (s *lateOwners) unowned(share *scheduler.Assignment, follows func(member string) bool, now time.Duration) (partitions int) {
	next := make(map[string]time.Duration, len(s.since))
	for _, member := range share.Members {
		if share.Load[member] == 0 || follows(member) {
			continue
		}
		since, was := s.since[member]
		if !was {
			since = now
		}
		next[member] = since
		if now-since >= unownedAfter {
			partitions += share.Load[member]
		}
	}
	s.since = next
	return partitions
}

// members is the membership of a process with the scheduler's role. If several processes use the store, their
// lease rows tell which of them are alive and which partitions they handle, whatever tells who the members
// are.
type members struct {
	partition.Membership

	rows    *fleet.Membership // nil: this process is alone
	watched Membership        // nil: there is nothing to run besides the rows
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

// follows returns whether a member is known to handle the partitions that it owns in a share.
func (m *members) follows(share *scheduler.Assignment) func(member string) bool {
	if m.rows == nil {
		return func(string) bool { return true }
	}
	silent := map[string]bool{} // of versions that do not declare it
	for _, p := range m.rows.Peers() {
		if p.Alive && p.Host == "" {
			silent[p.Process] = true
		}
	}
	return func(member string) bool {
		if member == m.Self() {
			return share.Warm > 0
		}
		return silent[member] || m.rows.Follows(member, share.Members)
	}
}
