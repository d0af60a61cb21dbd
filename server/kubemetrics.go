package server

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/partition/kube"
)

// kubeMetrics are the series of a membership by pods.
type kubeMetrics struct {
	membership atomic.Pointer[kube.Membership] // nil until the node has it
	kept       prometheus.Gauge
	relists    prometheus.Counter
}

func newKubeMetrics(r prometheus.Registerer) *kubeMetrics {
	m := &kubeMetrics{
		kept: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kinesin_members_kept", Help: "Members that the API server takes for gone and that renew their lease rows: kept since they are more than half.",
		}),
		relists: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kinesin_pods_relists_total", Help: "Lists of the pods because their watch broke or does not agree with the lease rows.",
		}),
	}
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kinesin_pods_watch_age_seconds", Help: "How long ago the Kubernetes API server last told anything; it does every minute.",
	}, m.age)
	r.MustRegister(m.kept, m.relists, age)
	return m
}

func (m *kubeMetrics) age() float64 {
	if membership := m.membership.Load(); membership != nil {
		return membership.ContactAge().Seconds()
	}
	return 0
}

func (m *kubeMetrics) hooks() kube.Hooks {
	return kube.Hooks{
		Kept:     func(count int) { m.kept.Set(float64(count)) },
		Relisted: m.relists.Inc,
	}
}
