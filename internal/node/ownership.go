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
	// unownedAfter is how long a partition may be without an owner that is there and warm until the alarm
	// says so.
	unownedAfter = 10 * time.Second
	// straysEvery is how often it is looked, at least, which members fire what is theirs.
	straysEvery = 2 * time.Second
)

// ownershipMetrics are the series about which partitions are fired here.
type ownershipMetrics struct {
	members prometheus.Gauge
	owned   prometheus.Gauge
	unowned prometheus.Gauge
	moved   *prometheus.CounterVec // direction
	warmed  prometheus.Histogram
}

func newOwnershipMetrics(f promauto.Factory) ownershipMetrics {
	m := ownershipMetrics{
		members: f.NewGauge(prometheus.GaugeOpts{
			Name: "kinesin_fleet_members", Help: "Processes that share the partitions, as this one knows; 0 where one has them all.",
		}),
		owned: f.NewGauge(prometheus.GaugeOpts{Name: "kinesin_partitions_owned", Help: "Partitions that are this process's."}),
		unowned: f.NewGauge(prometheus.GaugeOpts{
			Name: "kinesin_partitions_unowned", Help: "Partitions whose owner, as this process sees it, has not shown for more than 10 s that it has read them ahead " +
				"and fires them.",
		}),
		moved: counters(f, "kinesin_partitions_moved_total", "Partitions that became this process's (gained) or another's (lost).", "direction"),
		warmed: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_partitions_warm_seconds", Buckets: latenessBuckets,
			Help: "How long it took from a change of the members or the lambdas becoming known here until all that is this process's was read ahead.",
		}),
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

// podWatch is what a membership by pods tells of its two sources.
type podWatch interface {
	// Kept is how many are members though the API server says that they are gone.
	Kept() int
	// ContactAge is how long ago the API server last told anything.
	ContactAge() time.Duration
}

// sourcesCollector reads, at each scrape, how well the sources of the membership agree.
type sourcesCollector struct {
	of   podWatch
	kept *prometheus.Desc
	age  *prometheus.Desc
}

func newSourcesCollector(w podWatch) *sourcesCollector {
	return &sourcesCollector{
		of: w,
		kept: prometheus.NewDesc("kinesin_fleet_members_kept", "Members that the API server takes for gone and that renew their lease rows: "+
			"kept because they are more than half.", nil, nil),
		age: prometheus.NewDesc("kinesin_watch_contact_age_seconds", "How long ago the Kubernetes API server last told anything; it does every minute at least.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *sourcesCollector) Describe(out chan<- *prometheus.Desc) {
	out <- c.kept
	out <- c.age
}

// Collect implements prometheus.Collector.
func (c *sourcesCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(c.kept, prometheus.GaugeValue, float64(c.of.Kept()))
	out <- prometheus.MustNewConstMetric(c.age, prometheus.GaugeValue, c.of.ContactAge().Seconds())
}

// watchOwners keeps the alarm for partitions without an owner, until ctx ends.
func (n *Node) watchOwners(ctx context.Context) error {
	s := strays{since: map[string]time.Duration{}}
	for {
		share, now := n.scheduler.Assignment(), clock.Mono(n.clock)
		astray := s.unowned(&share, n.members.follows(&share), now)
		if n.notReady() != "" {
			astray = 0 // the others do not count this one, so that its view is its own
		}
		n.metrics.ownership.unowned.Set(float64(astray))
		if clock.Sleep(ctx, n.clock, straysEvery) != nil {
			return nil //nolint:nilerr // the end of ctx is the way to stop
		}
	}
}

// follows says of each member whether it fires what is its own in a share, as far as is known.
func (m *members) follows(share *scheduler.Assignment) func(member string) bool {
	if m.rows == nil {
		return func(string) bool { return true }
	}
	silent := map[string]bool{} // of versions that do not say
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

// strays are the members that do not fire what is theirs.
type strays struct {
	since map[string]time.Duration
}

// unowned counts the partitions of members that have been astray for too long, this process among them.
func (s *strays) unowned(share *scheduler.Assignment, follows func(member string) bool, now time.Duration) (partitions int) {
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
