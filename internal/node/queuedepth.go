package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// scrapeMax bounds what a scrape asks of the queues; what has not answered by then is left out.
	scrapeMax = 3 * time.Second
	// scrapesAtOnceMax is how many queues are asked at a time.
	scrapesAtOnceMax = 8
)

// queueDepths reads what lies in the queues. Where a queue is a service each look is a request, so of a fleet
// only the process that fires the first partition of a <lambda, priority> looks.
type queueDepths struct {
	n        *Node
	messages *prometheus.Desc
	oldest   *prometheus.Desc
}

func newQueueDepths(n *Node) queueDepths {
	return queueDepths{
		n: n,
		messages: prometheus.NewDesc("kinesin_queue_messages", "Messages in the queue of a lambda's priority, as far as the queue tells; a message "+
			"may carry several tasks.", []string{"lambda", "priority", "state"}, nil),
		oldest: prometheus.NewDesc("kinesin_queue_oldest_seconds", "How long the oldest due message has waited in its queue, as far as is known.",
			[]string{"lambda", "priority"}, nil),
	}
}

func (d queueDepths) collect(out chan<- prometheus.Metric) {
	if d.n.scheduler == nil {
		return
	}
	ctx, cancel := clock.Within(context.Background(), d.n.clock, scrapeMax)
	defer cancel()
	room := make(chan struct{}, scrapesAtOnceMax)
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, l := range d.n.catalog.All() {
		for priority := range l.Priorities {
			if !d.n.scheduler.Fires(task.Partition{Lambda: l.Ref, Priority: uint8(priority)}) {
				continue
			}
			room <- struct{}{}
			asking.Go(func() {
				d.one(ctx, out, l, uint8(priority))
				<-room
			})
		}
	}
}

func (d queueDepths) one(ctx context.Context, out chan<- prometheus.Metric, l *catalog.Entry, priority uint8) {
	depth, err := d.n.queue.Depth(ctx, queue.Name{Lambda: l.Ref, Priority: priority})
	if err != nil {
		d.n.log.DebugContext(ctx, "queue left out of the metrics", slog.String("lambda", l.Name), slog.Any("error", err))
		return
	}
	name := l.Priorities[priority]
	out <- prometheus.MustNewConstMetric(d.messages, prometheus.GaugeValue, float64(depth.Visible), l.Name, name, "visible")
	out <- prometheus.MustNewConstMetric(d.messages, prometheus.GaugeValue, float64(depth.InFlight), l.Name, name, "in_flight")
	out <- prometheus.MustNewConstMetric(d.oldest, prometheus.GaugeValue, depth.Oldest.Seconds(), l.Name, name)
}
