package node

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
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
		if n.notReady() != "" {
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
