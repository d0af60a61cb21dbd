package node

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/task"
)

// stage is the event at which a task's lateness is measured.
type stage uint8

const (
	stageEnqueued stage = iota
	stageClaimed
	stageStarted
	stageDelivered

	stageEnd
)

var stageTexts = [stageEnd]string{"enqueued", "claimed", "started", "delivered"}

// Outcomes of a Schedule call.
const (
	callAccepted, callRefused, callFailed = "accepted", "refused", "failed"
)

// Values of the label direction.
const (
	stepForward = "forward"
	stepBack    = "back"
)

// Metrics are all series of a process. Labels come from the catalog and never from a request, so that no
// caller can add series.
type Metrics struct {
	registry *prometheus.Registry
	config   MetricsConfig
	labels   *lambdaLabels
	series   seriesBook
	rooms    *roomMetrics

	lateness *prometheus.HistogramVec // lambda, priority, stage
	accepted *prometheus.CounterVec   // lambda, priority
	matched  *prometheus.CounterVec   // lambda, priority
	refused  *prometheus.CounterVec   // reason
	finished *prometheus.CounterVec   // lambda, priority, outcome
	expired  *prometheus.CounterVec   // lambda, priority
	dead     *prometheus.CounterVec   // lambda, priority
	wakeups  *prometheus.CounterVec   // event
	claims   *prometheus.CounterVec   // reason of the refusal
	lost     prometheus.Counter
	unsent   prometheus.Counter
	calls    *prometheus.CounterVec // outcome

	objective *prometheus.CounterVec // lambda, in_time

	undelivered *prometheus.CounterVec // lambda, priority
	grown       *prometheus.CounterVec // lambda

	failures    prometheus.Counter
	hscFailures *prometheus.CounterVec   // what
	storeTime   *prometheus.HistogramVec // op
	storeErrors *prometheus.CounterVec   // op
	fsync       prometheus.Histogram
	internal    prometheus.Counter
	auditLost   prometheus.Counter
	buffer      bufferMetrics

	registrations registrationMetrics

	ownership  ownershipMetrics
	clockAhead prometheus.Histogram
	clockSteps *prometheus.CounterVec // direction
	clockStep  prometheus.Gauge

	// A look-up of a series by its labels costs more than counting, so the series that change with every task
	// are cached.
	classes  atomic.Pointer[map[class]*classSeries] // replaced under growing
	growing  sync.Mutex
	byEvent  [task.Drop + 1]prometheus.Counter
	existing func(ref uint32) bool // whether a lambda exists
}

// class is one priority of one lambda.
type class struct {
	lambda   uint32
	priority uint8
}

// classSeries are the cached series of a class.
type classSeries struct {
	name     string // the value of the label lambda
	use      *usage
	accepted prometheus.Counter
	matched  prometheus.Counter
	expired  prometheus.Counter
	dead     prometheus.Counter
	lateness [stageEnd]prometheus.Observer
	finished [task.OutcomeUnstarted + 1]prometheus.Counter
}

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
