package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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
	m.rooms = newRoomMetrics()
	m.Registerer().MustRegister(m.rooms)
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

// Series lists all series of Kinesin that this process may have, sorted by name.
func (m *Metrics) Series() []Series {
	m.series.mu.Lock()
	defer m.series.mu.Unlock()
	found := map[string]Series{}
	for _, c := range m.series.all {
		descs := make(chan *prometheus.Desc)
		go func() {
			defer close(descs)
			c.Describe(descs)
		}()
		for d := range descs {
			if s := seriesOf(d); strings.HasPrefix(s.Name, "kinesin_") {
				s.Type = typeOf(c)
				found[s.Name] = s
			}
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Series) int { return cmp.Compare(a.Name, b.Name) })
}
