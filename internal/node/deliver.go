package node

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// delivery is what the scheduler needs for lambdas in deliver mode.
func (n *Node) delivery(c *Config, seal *task.Sealer) *scheduler.Delivery {
	return &scheduler.Delivery{
		Is: func(p task.Partition) bool {
			l := n.catalog.ByRef(p.Lambda)
			return l != nil && l.Mode == task.Deliver
		},
		Deliverer: dispatcher.NewDeliverer(dispatcher.DelivererConfig{
			Store: n.store, Queue: n.queue, Policies: policies{n.catalog}, Sealer: seal, Clock: c.Clock, Log: c.Log,
			Hooks: dispatcher.DelivererHooks{Delivered: n.delivered, Undelivered: n.undelivered}, Ended: n.ended, Together: c.together(),
		}),
	}
}

// deliverTogether is how far apart the due times of deliveries may be that are sent at the latest of them. At
// 100/s nine go in one request, which takes ten, and the 95th percentile of how late they are stays below 100
// ms.
const deliverTogether = 80 * time.Millisecond

// together is none where time stands still between events.
func (c Config) together() time.Duration {
	if c.Stepped {
		return 0
	}
	return deliverTogether
}

func (n *Node) delivered(t *task.Task, late time.Duration) {
	n.late(n.catalog.ByRef(t.Partition.Lambda), t, stageDelivered, max(0, late))
}

func (n *Node) undelivered(t *task.Task, err error) {
	if l := n.catalog.ByRef(t.Partition.Lambda); l != nil {
		n.metrics.undelivered.WithLabelValues(l.Name, l.Priorities[t.Partition.Priority]).Inc()
	}
	n.log.Debug("task not delivered, trying again", slog.String("task_id", t.ID.String()), slog.Any("error", err))
}

func newUndelivered(f promauto.Factory) *prometheus.CounterVec {
	return counters(f, "kinesin_deliveries_failed_total", "Sends to the queue of a deliver lambda that failed and are tried again.", "lambda", "priority")
}
