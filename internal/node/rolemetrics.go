package node

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/scheduler"
)

// bufferMetrics holds the series of the inbound buffer.
type bufferMetrics struct {
	ways     *prometheus.CounterVec // way
	rejected *prometheus.CounterVec // reason
	left     *prometheus.CounterVec // why
	consumed prometheus.Counter
	age      prometheus.Histogram
	trouble  prometheus.Counter
}

func newBufferMetrics(f promauto.Factory, c MetricsConfig) bufferMetrics {
	m := bufferMetrics{
		ways: counters(f, "kinesin_inbound_accepted_total", "Accepted tasks by where they were stored first: the inbound buffer, the store, the store "+
			"because the buffer failed or was slow (fallback), the buffer by a client that sends to it directly (direct), or the queue of a deliver lambda.", "way"),
		rejected: counters(f, "kinesin_inbound_rejected_total", "Messages and tasks of the inbound buffer, and tasks that may have run, that were set aside.", "reason"),
		left:     counters(f, "kinesin_inbound_left_total", "Messages left in the inbound buffer for a later receive.", "why"),
		consumed: counter(f, "kinesin_inbound_consumed_total", "Tasks moved from the inbound buffer to the store."),
		age: f.NewHistogram(c.histogram(prometheus.HistogramOpts{
			Name: "kinesin_inbound_age_seconds", Buckets: latenessBuckets,
			Help: "Time since the oldest task of a batch from the inbound buffer was accepted.",
		})),
		trouble: counter(f, "kinesin_inbound_pauses_total", "Pauses in consuming the inbound buffer because it or the store failed."),
	}
	for _, way := range intake.Ways() {
		m.ways.WithLabelValues(way)
	}
	for _, reason := range ingest.Reasons() {
		m.rejected.WithLabelValues(reason)
	}
	for _, why := range ingest.Lefts() {
		m.left.WithLabelValues(why)
	}
	return m
}

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

// registrationMetrics are the series of the registrations of lambdas.
type registrationMetrics struct {
	changes *prometheus.CounterVec // outcome
	states  *prometheus.GaugeVec   // outcome
}

func newRegistrationMetrics(f promauto.Factory) registrationMetrics {
	m := registrationMetrics{
		changes: counters(f, "kinesin_registrations_total", "Changes of the state of a registration.", "outcome"),
		states: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kinesin_registrations",
			Help: "Registrations of lambdas by their state in this process; refused includes those that cannot be read; unread is 1 while none can be read.",
		}, []string{"outcome"}),
	}
	for _, outcome := range lambdas.Registrations() {
		m.changes.WithLabelValues(outcome)
	}
	m.set(nil)
	return m
}

func (m registrationMetrics) set(states map[string]int) {
	for _, state := range lambdas.RegistrationStates() {
		m.states.WithLabelValues(state).Set(float64(states[state]))
	}
}
