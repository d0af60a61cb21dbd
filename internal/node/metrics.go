package node

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// latenessBuckets range from an embedded store (below a millisecond) to a backlog of minutes.
var latenessBuckets = []float64{
	.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
}

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

// Metrics are all series of a process. Labels come from the catalog and never from a request, so that no
// caller can add series.
type Metrics struct {
	registry *prometheus.Registry

	lateness *prometheus.HistogramVec // lambda, priority, stage
	accepted *prometheus.CounterVec   // lambda, priority
	matched  *prometheus.CounterVec   // lambda, priority
	refused  *prometheus.CounterVec   // reason
	finished *prometheus.CounterVec   // lambda, priority, outcome
	expired  *prometheus.CounterVec   // lambda, priority
	wakeups  *prometheus.CounterVec   // event
	claims   *prometheus.CounterVec   // reason of the refusal
	lost     prometheus.Counter
	unsent   prometheus.Counter

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
	name     string // of the lambda
	accepted prometheus.Counter
	matched  prometheus.Counter
	expired  prometheus.Counter
	lateness [stageEnd]prometheus.Observer
	finished [task.OutcomeUnstarted + 1]prometheus.Counter
}

// of returns the series of a class.
func (m *Metrics) of(l *catalog.Entry, priority uint8) *classSeries {
	if s := (*m.classes.Load())[class{l.Ref, priority}]; s != nil {
		return s
	}
	m.growing.Lock()
	defer m.growing.Unlock()
	all := m.withoutGone()
	if all[class{l.Ref, priority}] == nil {
		all[class{l.Ref, priority}] = m.newClass(l, priority)
	}
	m.classes.Store(&all)
	return all[class{l.Ref, priority}]
}

// withoutGone returns a copy of the classes of existing lambdas, and deletes the series of all other names.
func (m *Metrics) withoutGone() map[class]*classSeries {
	all := maps.Clone(*m.classes.Load())
	maps.DeleteFunc(all, func(c class, _ *classSeries) bool { return !m.existing(c.lambda) })
	names := map[string]bool{}
	for _, s := range all {
		names[s.name] = true
	}
	for _, s := range *m.classes.Load() {
		if !names[s.name] {
			for _, series := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
				m.accepted, m.matched, m.lateness, m.finished, m.expired, m.undelivered, m.grown,
			} {
				series.DeletePartialMatch(prometheus.Labels{"lambda": s.name})
			}
		}
	}
	return all
}

func (m *Metrics) newClass(l *catalog.Entry, priority uint8) *classSeries {
	name := l.Priorities[priority]
	s := &classSeries{name: l.Name, accepted: m.accepted.WithLabelValues(l.Name, name)}
	s.matched, s.expired = m.matched.WithLabelValues(l.Name, name), m.expired.WithLabelValues(l.Name, name)
	for i, text := range stageTexts {
		s.lateness[i] = m.lateness.WithLabelValues(l.Name, name, text)
	}
	if l.Mode == task.Deliver {
		m.undelivered.WithLabelValues(l.Name, name) // from zero on
	}
	for o := task.OutcomeSuccess; int(o) < len(s.finished); o++ {
		s.finished[o] = m.finished.WithLabelValues(l.Name, name, o.String())
	}
	return s
}

// waked counts a wake-up by the event that it led to.
func (m *Metrics) waked(kind task.EventKind) {
	if int(kind) < len(m.byEvent) {
		m.byEvent[kind].Inc()
	}
}

// NewMetrics returns all series at zero.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	f := promauto.With(r)
	m := &Metrics{
		registry: r,
		lateness: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_task_lateness_seconds", Buckets: latenessBuckets,
			Help: "Time from a task's due time until it was first enqueued, claimed, started, or delivered to its queue.",
		}, []string{"lambda", "priority", "stage"}),
		accepted: counters(f, "kinesin_tasks_accepted_total", "Accepted tasks.", "lambda", "priority"),
		matched: counters(f, "kinesin_tasks_matched_total", "Attempts handed directly to a waiting worker, without a queue message.",
			"lambda", "priority"),
		refused:     counters(f, "kinesin_tasks_refused_total", "Refused tasks.", "reason"),
		finished:    counters(f, "kinesin_attempts_total", "Ended attempts.", "lambda", "priority", "outcome"),
		expired:     counters(f, "kinesin_tasks_expired_total", "Tasks that ended because they did not start in time.", "lambda", "priority"),
		wakeups:     counters(f, "kinesin_wakeups_total", "Wake-ups by the event they led to.", "event"),
		claims:      counters(f, "kinesin_claims_refused_total", "Messages whose claim was refused.", "reason"),
		lost:        counter(f, "kinesin_workers_lost_total", "Expired worker leases."),
		unsent:      counter(f, "kinesin_messages_unsent_total", "Enqueued tasks whose message could not be sent; they are enqueued again later."),
		undelivered: counters(f, "kinesin_deliveries_failed_total", "Failed sends to the queue of a deliver lambda; each is retried.", "lambda", "priority"),
		grown: counters(f, "kinesin_shards_grown_total", "Times this process added shards to a lambda because one shard neared the write limit of a key.",
			"lambda"),

		failures:    counter(f, "kinesin_partition_failures_total", "Failed reads and dispatches of a partition; each is retried."),
		hscFailures: counters(f, "kinesin_hsc_failures_total", "Claims, heartbeats, results and messages that failed because of the store or the queue.", "what"),
		auditLost:   counter(f, "kinesin_audit_lost_total", "Acts whose audit record could not be stored; the log has it, if there was room."),
		internal:    counter(f, "kinesin_internal_errors_total", "Calls that failed for an internal reason; see the log."),
		storeErrors: counters(f, "kinesin_store_errors_total", "Failed store operations; settle: writes whose outcome stayed unknown.", "op"),
		storeTime: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_store_seconds", Help: "Duration of store operations, until durable.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
		}, []string{"op"}),
		fsync: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_store_fsync_seconds", Help: "Time until a batch of writes of the embedded store was durable.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
		}),
		clockAhead: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_fleet_clock_ahead_seconds", Buckets: []float64{.25, .5, 1, 2, 5, 10, 60},
			Help: "How far the clock of another process was ahead, if by more than 100 ms.",
		}),
		clockSteps: counters(f, "kinesin_clock_steps_total", "Steps of this process's wall clock: forward or back.", "direction"),
		clockStep: f.NewGauge(prometheus.GaugeOpts{
			Name: "kinesin_clock_step_seconds", Help: "Size of the last step of this process's wall clock; negative: back; 0: there was none.",
		}),
	}
	for _, direction := range []string{stepForward, stepBack} {
		m.clockSteps.WithLabelValues(direction) // from zero on
	}
	m.buffer, m.ownership, m.registrations = newBufferMetrics(f), newOwnershipMetrics(f), newRegistrationMetrics(f)
	m.classes.Store(&map[class]*classSeries{})
	for kind := range m.byEvent {
		m.byEvent[kind] = m.wakeups.WithLabelValues(task.EventKind(kind).String())
	}
	m.existing = func(uint32) bool { return true }
	return m
}

func counters(f promauto.Factory, name, help string, labels ...string) *prometheus.CounterVec {
	return f.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(f promauto.Factory, name, help string) prometheus.Counter {
	return f.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// storeOp observes one store operation. A missing row and a cancelled call are no errors.
func (m *Metrics) storeOp(kind string, _ int, took time.Duration, err error) {
	m.storeTime.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
		m.storeErrors.WithLabelValues(kind).Inc()
	}
}

// Synced observes one batch of writes that an embedded store made durable.
func (m *Metrics) Synced(took time.Duration, _ int) { m.fsync.Observe(took.Seconds()) }

// Registerer returns the registry to which drivers add their series.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }
