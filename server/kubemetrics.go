package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/partition/kube"
)

// kubeHooks count what a membership by pods does; how well its sources agree the node tells.
func kubeHooks(r prometheus.Registerer) kube.Hooks {
	f := promauto.With(r)
	relists := f.NewCounter(prometheus.CounterOpts{
		Name: "kinesin_pods_relists_total", Help: "Lists of the pods because their watch is silent or does not agree with the lease rows.",
	})
	failures := f.NewCounter(prometheus.CounterOpts{
		Name: "kinesin_pods_watch_failures_total", Help: "Lists and watches of the Kubernetes API server that failed, and watches that ended long before their time.",
	})
	return kube.Hooks{Relisted: relists.Inc, Broke: failures.Inc}
}
