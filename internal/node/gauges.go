package node

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

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

func (g *gauges) send(out chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, v := range g.all {
		out <- prometheus.MustNewConstMetric(key.desc, prometheus.GaugeValue, v.value, v.labels...)
	}
}
