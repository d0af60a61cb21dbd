package node

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Series describes the series of a name.
type Series struct {
	Name, Type, Help string
	Labels           []string
}

// Native histograms tell values apart by 10 %, in at most 160 buckets; they are started anew once an hour at
// most when they need more.
const (
	nativeFactor     = 1.1
	nativeBucketsMax = 160
	nativeResetEvery = time.Hour
)

// latenessBuckets range from an embedded store (below a millisecond) to a backlog of minutes.
var latenessBuckets = []float64{
	.0005, .001, .002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300,
}

// list registers a collector and lists its series, whether or not they have a value yet.
func (m *Metrics) list(c prometheus.Collector, kind, name, help string, labels []string) {
	m.registry.MustRegister(c)
	m.all = append(m.all, Series{name, kind, help, labels})
	if v, is := c.(interface{ DeletePartialMatch(prometheus.Labels) int }); is && slices.Contains(labels, "lambda") {
		m.ofLambdas = append(m.ofLambdas, v.DeletePartialMatch)
	}
}

// Counters adds a counter for each combination of the labels' values.
func (m *Metrics) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.list(c, "counter", name, help, labels)
	return c
}

// Counter adds a counter.
func (m *Metrics) Counter(name, help string) prometheus.Counter {
	return m.Counters(name, help).WithLabelValues()
}

// fromZero begins the counters of these values of their only label, which is before they count anything.
func fromZero(c *prometheus.CounterVec, values ...string) *prometheus.CounterVec {
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

// Gauges adds a gauge for each combination of the labels' values.
func (m *Metrics) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.list(g, "gauge", name, help, labels)
	return g
}

// Gauge adds a gauge.
func (m *Metrics) Gauge(name, help string) prometheus.Gauge {
	return m.Gauges(name, help).WithLabelValues()
}

// Histograms adds a histogram for each combination of the labels' values.
func (m *Metrics) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	o := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	if !m.config.NoNative {
		o.NativeHistogramBucketFactor, o.NativeHistogramMaxBucketNumber, o.NativeHistogramMinResetDuration = nativeFactor, nativeBucketsMax, nativeResetEvery
	}
	h := prometheus.NewHistogramVec(o, labels)
	m.list(h, "histogram", name, help, labels)
	return h
}

// Histogram adds a histogram.
func (m *Metrics) Histogram(name, help string, buckets []float64) prometheus.Observer {
	return m.Histograms(name, help, buckets).WithLabelValues()
}

// Computed adds a gauge that is computed at each scrape.
func (m *Metrics) Computed(name, help string, value func() float64) {
	m.list(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value), "gauge", name, help, nil)
}

// computedTotal adds a counter that is read at each scrape.
func (m *Metrics) computedTotal(name, help string, value func() float64) {
	m.list(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value), "counter", name, help, nil)
}

// scraped lists gauges whose values and labels a scrape finds.
func (m *Metrics) scraped(name, help string, labels ...string) *prometheus.Desc {
	m.all = append(m.all, Series{name, "gauge", help, labels})
	return prometheus.NewDesc(name, help, labels, nil)
}

// Series lists all series of Kinesin that this process may have, sorted by name.
func (m *Metrics) Series() []Series {
	return slices.SortedFunc(slices.Values(m.all), func(a, b Series) int { return cmp.Compare(a.Name, b.Name) })
}

// scrapes are what finds gauges at each scrape. What they find is not described before.
type scrapes []func(*gauges)

// Describe implements prometheus.Collector.
func (scrapes) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s scrapes) Collect(to chan<- prometheus.Metric) {
	for _, find := range s {
		var found gauges
		find(&found)
		for key, v := range found.all {
			to <- prometheus.MustNewConstMetric(key.desc, prometheus.GaugeValue, v.value, v.labels...)
		}
	}
}

// gauges are values of one scrape. Lambdas that share the label "other" share their values. It is safe for
// concurrent use.
type gauges struct {
	mu  sync.Mutex
	all map[gaugeKey]*gauge
}

type gaugeKey struct {
	desc   *prometheus.Desc
	labels string
}

type gauge struct {
	value  float64
	labels []string
}

// add adds to a value.
func (g *gauges) add(desc *prometheus.Desc, value float64, labels ...string) {
	g.change(desc, labels, func(old float64) float64 { return old + value })
}

// most raises a value, which is at least 0.
func (g *gauges) most(desc *prometheus.Desc, value float64, labels ...string) {
	g.change(desc, labels, func(old float64) float64 { return max(old, value) })
}

func (g *gauges) change(desc *prometheus.Desc, labels []string, change func(float64) float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := gaugeKey{desc, strings.Join(labels, "\x00")}
	if g.all[key] == nil {
		if g.all == nil {
			g.all = map[gaugeKey]*gauge{}
		}
		g.all[key] = &gauge{labels: labels}
	}
	g.all[key].value = change(g.all[key].value)
}
