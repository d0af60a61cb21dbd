package node

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// addSeries adds the series of the roles.
func (m *Metrics) addSeries(f promauto.Factory) {
	m.lateness = f.NewHistogramVec(m.config.histogram(prometheus.HistogramOpts{
		Name: "kinesin_task_lateness_seconds", Buckets: latenessBuckets,
		Help: "Time from a task's due time until it was first enqueued, claimed, started, or delivered to its queue.",
	}), []string{"lambda", "priority", "stage"})
	m.accepted = counters(f, "kinesin_tasks_accepted_total", "Accepted tasks.", "lambda", "priority")
	m.matched = counters(f, "kinesin_tasks_matched_total", "Attempts handed directly to a waiting worker, without a queue message.",
		"lambda", "priority")
	m.refused = counters(f, "kinesin_tasks_refused_total", "Refused tasks.", "reason")
	m.finished = counters(f, "kinesin_attempts_total", "Ended attempts.", "lambda", "priority", "outcome")
	m.dead = counters(f, "kinesin_tasks_dead_total", "Tasks that ended for good without success: a handler said so, their attempts were used up, or they killed their workers.", "lambda", "priority")
	m.expired = counters(f, "kinesin_tasks_expired_total", "Tasks that ended because they did not start in time.", "lambda", "priority")
	m.wakeups = counters(f, "kinesin_wakeups_total", "Wake-ups by the event they led to.", "event")
	m.claims = counters(f, "kinesin_claims_refused_total", "Messages whose claim was refused.", "reason")
	m.lost = counter(f, "kinesin_workers_lost_total", "Expired worker leases.")
	m.unsent = counter(f, "kinesin_messages_unsent_total", "Enqueued tasks whose message could not be sent; they are enqueued again later.")
	m.calls = counters(f, "kinesin_schedule_calls_total",
		"Schedule calls: accepted; refused, for a reason of the caller's; failed, because the server, its store or its queue could not take a task. "+
			"Availability is 1 - failed / all.", "outcome")
	for _, outcome := range []string{callAccepted, callRefused, callFailed} {
		m.calls.WithLabelValues(outcome) // from zero on
	}
	m.objective = counters(f, "kinesin_objective_starts_total",
		"Starts of tasks of lambdas that have an objective, and ends without a start, by whether they were in time.", "lambda", "in_time")
	m.undelivered = counters(f, "kinesin_deliveries_failed_total", "Failed sends to the queue of a deliver lambda; each is retried.", "lambda", "priority")
	m.grown = counters(f, "kinesin_shards_grown_total", "Times this process added shards to a lambda because one shard neared the write limit of a key.",
		"lambda")

	m.failures = counter(f, "kinesin_partition_failures_total", "Failed reads and dispatches of a partition; each is retried.")
	m.hscFailures = counters(f, "kinesin_hsc_failures_total", "Claims, heartbeats, results and messages that failed because of the store or the queue.", "what")
	m.auditLost = counter(f, "kinesin_audit_lost_total", "Acts whose audit record could not be stored; the log has it, if there was room.")
	m.internal = counter(f, "kinesin_internal_errors_total", "Calls that failed for an internal reason; see the log.")
	m.storeErrors = counters(f, "kinesin_store_errors_total", "Failed store operations; settle: writes whose outcome stayed unknown.", "op")
	m.storeTime = f.NewHistogramVec(m.config.histogram(prometheus.HistogramOpts{
		Name: "kinesin_store_seconds", Help: "Duration of store operations, until durable.",
		Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
	}), []string{"op"})
	m.fsync = f.NewHistogram(m.config.histogram(prometheus.HistogramOpts{
		Name: "kinesin_store_fsync_seconds", Help: "Time until a batch of writes of the embedded store was durable.",
		Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
	}))
	m.clockAhead = f.NewHistogram(m.config.histogram(prometheus.HistogramOpts{
		Name: "kinesin_fleet_clock_ahead_seconds", Buckets: []float64{.25, .5, 1, 2, 5, 10, 60},
		Help: "How far the clock of another process was ahead, if by more than 100 ms.",
	}))
	m.clockSteps = counters(f, "kinesin_clock_steps_total", "Steps of this process's wall clock: forward or back.", "direction")
	m.clockStep = f.NewGauge(prometheus.GaugeOpts{
		Name: "kinesin_clock_step_seconds", Help: "Size of the last step of this process's wall clock; negative: back; 0: there was none.",
	})
	for _, direction := range []string{stepForward, stepBack} {
		m.clockSteps.WithLabelValues(direction) // from zero on
	}
	f.NewGaugeVec(prometheus.GaugeOpts{Name: "kinesin_build_info", Help: "Always 1; the labels say what is running."}, []string{"version", "goversion"}).
		WithLabelValues(m.version(), runtime.Version()).Set(1)
}

// version returns that of the program.
func (m *Metrics) version() string { return cmp.Or(m.config.Version, builtVersion()) }

// builtVersion returns what the Go toolchain recorded.
func builtVersion() string {
	if info, found := debug.ReadBuildInfo(); found {
		return cmp.Or(info.Main.Version, "unknown")
	}
	return "unknown"
}

func counters(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(f promauto.Factory, name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}
