package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
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
	config   MetricsConfig
	labels   *lambdaLabels
	series   seriesBook

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

// of returns the series of a class, to count one use of it.
func (m *Metrics) of(l *catalog.Entry, priority uint8) *classSeries {
	s := m.made(l, priority)
	s.use.events.Add(1)
	return s
}

// made returns the series of a class. A scrape makes those of every class before their first use: Prometheus
// sees no increase in a series that begins at 1, so an alert would miss the first dead letter.
func (m *Metrics) made(l *catalog.Entry, priority uint8) *classSeries {
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

// rank gives series of their own to the lambdas that are used most; see lambdaLabels.
func (m *Metrics) rank() {
	m.growing.Lock()
	defer m.growing.Unlock()
	changed := m.labels.rank()
	if len(changed) == 0 {
		return
	}
	all := m.withoutGone()
	for c, s := range all {
		if slices.Contains(changed, c.lambda) {
			m.deleteSeries(s.name)
			delete(all, c)
		}
	}
	m.classes.Store(&all)
}

// deleteSeries deletes all series of a lambda that has some of its own.
func (m *Metrics) deleteSeries(lambda string) {
	if lambda == otherLabel {
		return
	}
	for _, series := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.accepted, m.matched, m.lateness, m.finished, m.expired, m.dead, m.undelivered, m.grown, m.objective,
	} {
		series.DeletePartialMatch(prometheus.Labels{"lambda": lambda})
	}
}

// withoutGone returns a copy of the classes of existing lambdas, and deletes the series of all other names.
func (m *Metrics) withoutGone() map[class]*classSeries {
	all := maps.Clone(*m.classes.Load())
	maps.DeleteFunc(all, func(c class, _ *classSeries) bool { return !m.existing(c.lambda) })
	m.labels.forget(m.existing)
	names := map[string]bool{}
	for _, s := range all {
		names[s.name] = true
	}
	for _, s := range *m.classes.Load() {
		if !names[s.name] {
			m.deleteSeries(s.name)
		}
	}
	return all
}

func (m *Metrics) newClass(l *catalog.Entry, priority uint8) *classSeries {
	lambda, name := m.labels.of(l, priority)
	s := &classSeries{name: lambda, use: m.labels.use(l.Ref), accepted: m.accepted.WithLabelValues(lambda, name)}
	s.matched, s.expired = m.matched.WithLabelValues(lambda, name), m.expired.WithLabelValues(lambda, name)
	s.dead = m.dead.WithLabelValues(lambda, name)
	for i, text := range stageTexts {
		s.lateness[i] = m.lateness.WithLabelValues(lambda, name, text)
	}
	if l.Mode == task.Deliver {
		m.undelivered.WithLabelValues(lambda, name) // from zero on
	}
	for o := task.OutcomeSuccess; int(o) < len(s.finished); o++ {
		s.finished[o] = m.finished.WithLabelValues(lambda, name, o.String())
	}
	return s
}

// waked counts a wake-up by the event that it led to.
func (m *Metrics) waked(kind task.EventKind) {
	if int(kind) < len(m.byEvent) {
		m.byEvent[kind].Inc()
	}
}

// MetricsConfig says which series there are. Its zero value means the defaults.
type MetricsConfig struct {
	// LambdasMax is how many lambdas have series of their own; 0: MetricLambdasDefault.
	LambdasMax int
	// NoNative leaves native histograms out. They are beside the classic ones, for scrapes that ask for them.
	NoNative bool
	Version  string // of the program; empty: what the Go toolchain recorded
}

// Native histograms tell values apart by 10 %, in at most 160 buckets; they are started anew once an hour at
// most when they need more.
const (
	nativeFactor     = 1.1
	nativeBucketsMax = 160
	nativeResetEvery = time.Hour
)

// histogram returns the options with those of a native histogram.
func (c MetricsConfig) histogram(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	if !c.NoNative {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = nativeFactor, nativeBucketsMax, nativeResetEvery
	}
	return o
}

// NewMetrics returns all series at zero.
func NewMetrics(c MetricsConfig) *Metrics {
	c.LambdasMax = cmp.Or(c.LambdasMax, MetricLambdasDefault)
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewBuildInfoCollector())
	m := &Metrics{registry: r, config: c, labels: newLambdaLabels(c.LambdasMax)}
	m.series.registry = r
	f := promauto.With(m.Registerer())
	m.addSeries(f)
	m.buffer, m.ownership, m.registrations = newBufferMetrics(f, c), newOwnershipMetrics(f, c), newRegistrationMetrics(f)
	m.classes.Store(&map[class]*classSeries{})
	for kind := range m.byEvent {
		m.byEvent[kind] = m.wakeups.WithLabelValues(task.EventKind(kind).String())
	}
	m.existing = func(uint32) bool { return true }
	return m
}

// grew counts that shards were added to a lambda.
func (m *Metrics) grew(l *catalog.Entry) { m.grown.WithLabelValues(m.labels.lambda(l)).Inc() }

// storeOp observes one store operation. A missing row and a cancelled call are no errors.
func (m *Metrics) storeOp(kind string, _ int, took time.Duration, err error) {
	m.storeTime.WithLabelValues(kind).Observe(took.Seconds())
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, context.Canceled) {
		m.storeErrors.WithLabelValues(kind).Inc()
	}
}

// Synced observes one batch of writes that an embedded store made durable.
func (m *Metrics) Synced(took time.Duration, _ int) { m.fsync.Observe(took.Seconds()) }

// Histogram returns options of a driver's histogram as this process's metrics have them.
func (m *Metrics) Histogram(o prometheus.HistogramOpts) prometheus.HistogramOpts {
	return m.config.histogram(o)
}

// Registerer returns the registry to which drivers add their series.
func (m *Metrics) Registerer() prometheus.Registerer { return &m.series }

// Gatherer returns what collects all series.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.registry }
