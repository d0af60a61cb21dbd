package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/store"
)

// healthDescs are the series of a store with files of its own.
type healthDescs struct {
	damaged, bytes, passes *prometheus.Desc
}

func newHealthDescs() healthDescs {
	return healthDescs{
		damaged: prometheus.NewDesc("kinesin_store_damaged_files",
			"Files of the embedded store of which a part cannot be read; the process is not ready while there are any.", nil, nil),
		bytes: prometheus.NewDesc("kinesin_store_scrubbed_bytes_total",
			"Bytes of data files that were read in the background and compared with their checksums.", nil, nil),
		passes: prometheus.NewDesc("kinesin_store_scrubs_total", "How often that came through all data files.", nil, nil),
	}
}

func (h *healthDescs) collect(s *store.Store, out chan<- prometheus.Metric) {
	health, known := s.Health()
	if !known {
		return
	}
	out <- prometheus.MustNewConstMetric(h.damaged, prometheus.GaugeValue, float64(len(health.Damaged)))
	out <- prometheus.MustNewConstMetric(h.bytes, prometheus.CounterValue, float64(health.ScrubbedBytes))
	out <- prometheus.MustNewConstMetric(h.passes, prometheus.CounterValue, float64(health.Scrubs))
}
