package node

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

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

// ownershipMetrics are the series about the owners of partitions.
type ownershipMetrics struct {
	members prometheus.Gauge
	owned   prometheus.Gauge
	unowned prometheus.Gauge
	moved   *prometheus.CounterVec // direction
	warmed  prometheus.Histogram
}

func newOwnershipMetrics(f promauto.Factory, c MetricsConfig) ownershipMetrics {
	gauge := func(name, help string) prometheus.Gauge {
		return f.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := ownershipMetrics{
		members: gauge("kinesin_fleet_members", "Processes that share the partitions, as this process sees it; 0 if it is alone."),
		owned:   gauge("kinesin_partitions_owned", "Partitions owned by this process."),
		unowned: gauge("kinesin_partitions_unowned",
			"Partitions whose owner, as this process sees it, has not shown for more than 10 s that it has read them and handles them."),
		moved: counters(f, "kinesin_partitions_moved_total", "Partitions gained or lost by this process.", "direction"),
		warmed: f.NewHistogram(c.histogram(prometheus.HistogramOpts{
			Name: "kinesin_partitions_warm_seconds", Buckets: latenessBuckets,
			Help: "Time from a change of the members or the lambdas until this process had read all its partitions.",
		})),
	}
	m.moved.WithLabelValues("gained")
	m.moved.WithLabelValues("lost")
	return m
}

func (m *ownershipMetrics) shared(s *scheduler.Assignment) {
	m.owned.Set(float64(s.Owned))
	m.moved.WithLabelValues("gained").Add(float64(s.Gained))
	m.moved.WithLabelValues("lost").Add(float64(s.Lost))
}

func (m *ownershipMetrics) warm(s *scheduler.Assignment) { m.warmed.Observe(s.Warm.Seconds()) }

// watchOwners counts the unowned partitions until ctx ends.
func (n *Node) watchOwners(ctx context.Context) error {
	s := lateOwners{since: map[string]time.Duration{}}
	for {
		share, now := n.scheduler.Assignment(), clock.Mono(n.clock)
		unowned := s.unowned(&share, n.members.follows(&share), now)
		if n.notReady() != "" {
			unowned = 0 // the others do not count this process, and so have other views
		}
		n.metrics.ownership.unowned.Set(float64(unowned))
		if clock.Sleep(ctx, n.clock, checkOwnersEvery) != nil {
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
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
