package node

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// seriesBook registers collectors and remembers them, so that the series can be listed whether or not they
// have a value yet.
type seriesBook struct {
	registry *prometheus.Registry

	mu  sync.Mutex
	all []prometheus.Collector
}

// Register implements prometheus.Registerer, as do the other methods.
func (b *seriesBook) Register(c prometheus.Collector) error {
	if err := b.registry.Register(c); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, c)
	return nil
}

// MustRegister panics where Register returns an error, which is a bug.
func (b *seriesBook) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := b.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister is not used.
func (b *seriesBook) Unregister(c prometheus.Collector) bool { return b.registry.Unregister(c) }

// Series describes the series of a name.
type Series struct {
	Name, Type, Help string
	Labels           []string
}

// descForm is how a Desc is printed, which is the only way to read it.
var descForm = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: (".*"), constLabels: \{[^}]*\}, variableLabels: \{([^}]*)\}`)

func seriesOf(d *prometheus.Desc) Series {
	parts := descForm.FindStringSubmatch(d.String())
	if parts == nil {
		return Series{}
	}
	s := Series{Name: parts[1]}
	if _, err := fmt.Sscanf(parts[2], "%q", &s.Help); err != nil {
		s.Help = parts[2]
	}
	if parts[3] != "" {
		s.Labels = strings.Split(parts[3], ",")
	}
	return s
}

// typeOf returns the type of a collector's series. Those that are computed at a scrape are gauges.
func typeOf(c prometheus.Collector) string {
	switch c := c.(type) {
	case *prometheus.CounterVec:
		return "counter"
	case *prometheus.HistogramVec:
		return "histogram"
	case prometheus.Metric:
		var v dto.Metric
		if c.Write(&v) == nil {
			switch {
			case v.GetCounter() != nil:
				return "counter"
			case v.GetHistogram() != nil:
				return "histogram"
			}
		}
	}
	return "gauge"
}
