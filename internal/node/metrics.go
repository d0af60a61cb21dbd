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

// latenessBuckets cover what an embedded store does (below a millisecond) up to a backlog of minutes.
var latenessBuckets = []float64{
	.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
}

// stage is up to where a task's lateness is measured, from its due time on.
type stage uint8

const (
	stageEnqueued stage = iota
	stageClaimed
	stageStarted
	stageDelivered

	stageEnd
)

var stageTexts = [stageEnd]string{"enqueued", "claimed", "started", "delivered"}

// Metrics are all the series of a process. Labels come only from the catalog, never from a
// request, so that nobody can make more of them by asking.
type Metrics struct {
	registry *prometheus.Registry

	lateness *prometheus.HistogramVec // lambda, priority, stage
	accepted *prometheus.CounterVec   // lambda, priority
	matched  *prometheus.CounterVec   // lambda, priority
	refused  *prometheus.CounterVec   // reason
	finished *prometheus.CounterVec   // lambda, priority, outcome
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
	buffer      bufferMetrics

	registrations registrationMetrics

	ownership  ownershipMetrics
	clockAhead prometheus.Histogram
	clockSteps *prometheus.CounterVec // direction
	clockStep  prometheus.Gauge

	// Looking series up by their labels costs more than counting, so what is counted for every task is
	// kept at hand.
	classes  atomic.Pointer[map[class]*classSeries] // replaced under growing
	growing  sync.Mutex
	byEvent  [task.Drop + 1]prometheus.Counter
	existing func(ref uint32) bool // whether a lambda is there
}

// class is one priority of one lambda.
type class struct {
	lambda   uint32
	priority uint8
}

// classSeries are the series of a class.
type classSeries struct {
	name     string // of the lambda
	accepted prometheus.Counter
	matched  prometheus.Counter
	lateness [stageEnd]prometheus.Observer
	finished [task.OutcomeUnstarted + 1]prometheus.Counter
}

// of finds the series of a class.
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

// withoutGone copies the classes of lambdas that exist, and drops the series of names that no lambda has.
func (m *Metrics) withoutGone() map[class]*classSeries {
	all := maps.Clone(*m.classes.Load())
	maps.DeleteFunc(all, func(c class, _ *classSeries) bool { return !m.existing(c.lambda) })
	names := map[string]bool{}
	for _, s := range all {
		names[s.name] = true
	}
	for _, s := range *m.classes.Load() {
		if !names[s.name] {
			for _, series := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.accepted, m.matched, m.lateness, m.finished, m.undelivered, m.grown} {
				series.DeletePartialMatch(prometheus.Labels{"lambda": s.name})
			}
		}
	}
	return all
}

func (m *Metrics) newClass(l *catalog.Entry, priority uint8) *classSeries {
	name := l.Priorities[priority]
	s := &classSeries{name: l.Name, accepted: m.accepted.WithLabelValues(l.Name, name)}
	s.matched = m.matched.WithLabelValues(l.Name, name)
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

// waked counts a wake-up by what it led to.
func (m *Metrics) waked(kind task.EventKind) {
	if int(kind) < len(m.byEvent) {
		m.byEvent[kind].Inc()
	}
}

// NewMetrics returns the series, all of them at zero.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	f := promauto.With(r)
	m := &Metrics{
		registry: r,
		lateness: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_task_lateness_seconds", Buckets: latenessBuckets,
			Help: "How long after its due time a task was first enqueued, claimed and started; or delivered, which a consumer can see it from.",
		}, []string{"lambda", "priority", "stage"}),
		accepted:    counters(f, "kinesin_tasks_accepted_total", "Tasks that Schedule acknowledged.", "lambda", "priority"),
		matched:     counters(f, "kinesin_tasks_matched_total", "Attempts that a waiting worker got without a message, in the write that dispatched their task.", "lambda", "priority"),
		refused:     counters(f, "kinesin_tasks_refused_total", "Tasks that Schedule refused.", "reason"),
		finished:    counters(f, "kinesin_attempts_total", "Attempts that ended, by outcome.", "lambda", "priority", "outcome"),
		wakeups:     counters(f, "kinesin_wakeups_total", "Wake-ups that fired, by what they led to.", "event"),
		claims:      counters(f, "kinesin_claims_refused_total", "Messages whose claim was refused.", "reason"),
		lost:        counter(f, "kinesin_workers_lost_total", "Worker leases that ran out."),
		unsent:      counter(f, "kinesin_messages_unsent_total", "Enqueued tasks whose message waits for their wake-up."),
		undelivered: newUndelivered(f),
		grown:       counters(f, "kinesin_shards_grown_total", "How often this process gave a lambda more shards, since one was near what a key of the store takes.", "lambda"),

		failures:    counter(f, "kinesin_partition_failures_total", "Rounds of a partition that failed and were tried again."),
		hscFailures: counters(f, "kinesin_hsc_failures_total", "Claims, heartbeats and results for which the store or the queue failed, by what was attempted.", "what"),
		internal:    counter(f, "kinesin_internal_errors_total", "Calls that failed for a reason that is only in the log."),
		storeErrors: counters(f, "kinesin_store_errors_total", "Calls to the store that failed; settle: writes whose outcome could not be found out.", "op"),
		storeTime: f.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kinesin_store_seconds", Help: "Time of a call to the store, durable writes included.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
		}, []string{"op"}),
		fsync: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_store_fsync_seconds", Help: "Time until a group of writes was durable.",
			Buckets: prometheus.ExponentialBuckets(20e-6, 2.5, 14),
		}),
		clockAhead: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_fleet_clock_ahead_seconds", Buckets: []float64{.25, .5, 1, 2, 5, 10, 60},
			Help: "How far the clock of another process was ahead, where it was by more than 100 ms.",
		}),
		clockSteps: counters(f, "kinesin_clock_steps_total", "How often the wall clock of this process was set, by direction: forward or back.", "direction"),
		clockStep: f.NewGauge(prometheus.GaugeOpts{
			Name: "kinesin_clock_step_seconds", Help: "By how much the wall clock of this process was set last; negative: back; 0: it was not.",
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

// storeOp observes one call to the store. It does not count a missing row, or a call that its caller gave up,
// as an error.
func (m *Metrics) storeOp(kind string, _ int, took time.Duration, err error) {
	m.storeTime.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
		m.storeErrors.WithLabelValues(kind).Inc()
	}
}

// Synced observes one group of writes that an embedded store made durable.
func (m *Metrics) Synced(took time.Duration, _ int) { m.fsync.Observe(took.Seconds()) }

// Registerer is where drivers add series of their own.
func (m *Metrics) Registerer() prometheus.Registerer { return m.registry }
