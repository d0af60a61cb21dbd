package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// latenessBuckets cover what an embedded store does (below a millisecond) up to a backlog of minutes.
var latenessBuckets = []float64{
	.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
}

// The stages of a task's lateness; each is measured from its due time.
const (
	stageEnqueued = "enqueued"
	stageClaimed  = "claimed"
	stageStarted  = "started"
)

// metrics are all the series of a process. Labels come only from the catalog, never from a
// request, so that nobody can make more of them by asking.
type metrics struct {
	registry *prometheus.Registry

	lateness  *prometheus.HistogramVec // lambda, priority, stage
	accepted  *prometheus.CounterVec   // lambda, priority
	refused   *prometheus.CounterVec   // reason
	finished  *prometheus.CounterVec   // lambda, priority, outcome
	wakeups   *prometheus.CounterVec   // event
	claims    *prometheus.CounterVec   // reason of the refusal
	lost      prometheus.Counter
	unsent    prometheus.Counter
	failures  prometheus.Counter
	storeTime *prometheus.HistogramVec // op
	fsync     prometheus.Histogram
	internal  prometheus.Counter
}

func newMetrics() *metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	m := &metrics{
		registry: r,
		lateness: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_task_lateness_seconds", Buckets: latenessBuckets,
			Help: "How long after its due time a task was first enqueued, claimed and started.",
		}, []string{"lambda", "priority", "stage"}),
		accepted: counters("kinesin_tasks_accepted_total", "Tasks that Schedule acknowledged.", "lambda", "priority"),
		refused:  counters("kinesin_tasks_refused_total", "Tasks that Schedule refused.", "reason"),
		finished: counters("kinesin_attempts_total", "Attempts that ended, by outcome.", "lambda", "priority", "outcome"),
		wakeups:  counters("kinesin_wakeups_total", "Wake-ups that fired, by what they led to.", "event"),
		claims:   counters("kinesin_claims_refused_total", "Messages whose claim was refused.", "reason"),
		lost:     counter("kinesin_workers_lost_total", "Worker leases that ran out."),
		unsent:   counter("kinesin_messages_unsent_total", "Enqueued tasks whose message waits for their wake-up."),
		failures: counter("kinesin_partition_failures_total", "Rounds of a partition that failed and were tried again."),
		internal: counter("kinesin_internal_errors_total", "Calls that failed for a reason that is only in the log."),
		storeTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_store_seconds", Help: "Time of a call to the store, durable writes included.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
		}, []string{"op"}),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_store_fsync_seconds", Help: "Time until a group of writes was durable.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
		}),
	}
	r.MustRegister(m.lateness, m.accepted, m.refused, m.finished, m.wakeups, m.claims, m.lost, m.unsent,
		m.failures, m.internal, m.storeTime, m.fsync)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// storeOp observes one call to the store.
func (m *metrics) storeOp(kind string, _ int, took time.Duration, _ error) {
	m.storeTime.WithLabelValues(kind).Observe(took.Seconds())
}
