package node

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// depthCollector reads, at each scrape, how much there is of everything.
type depthCollector struct {
	n      *Node
	depth  *prometheus.Desc
	oldest *prometheus.Desc
	stuck  *prometheus.Desc
	full   *prometheus.Desc
	ready  *prometheus.Desc
	health healthDescs
	worker *prometheus.Desc
	flight *prometheus.Desc
	lag    *prometheus.Desc
	soon   *prometheus.Desc
	queues queueDepths
}

func newDepthCollector(n *Node) *depthCollector {
	perClass := []string{"lambda", "priority"}
	return &depthCollector{
		n: n, queues: newQueueDepths(n),
		depth: prometheus.NewDesc("kinesin_tasks", "Live tasks, by state; only of a store that keeps count.",
			append(perClass, "state"), nil),
		oldest: prometheus.NewDesc("kinesin_oldest_waiting_seconds",
			"How long ago the oldest task that still waits for its dispatch was due.", perClass, nil),
		stuck: prometheus.NewDesc("kinesin_deliveries_stuck",
			"Tasks of deliver lambdas that a process acquired and did not get onto their queue at once: they wait here for another try, or their process was another one.",
			perClass, nil),
		full:   prometheus.NewDesc("kinesin_store_full", "1 while the store takes no new tasks for want of space.", nil, nil),
		ready:  prometheus.NewDesc("kinesin_store_counted", "1 when the numbers of kinesin_tasks are complete after a start.", nil, nil),
		health: newHealthDescs(),
		worker: prometheus.NewDesc("kinesin_workers", "Worker processes with a stream here.", nil, nil),
		flight: prometheus.NewDesc("kinesin_inflight_tasks",
			"Tasks that this process remembers between their dispatch and their end: they are sent, run, or wait for a retry.", nil, nil),
		lag: prometheus.NewDesc("kinesin_schedule_lag_seconds",
			"How long ago the oldest task was due that this process should have dispatched and has not; 0 when it keeps up.", nil, nil),
		soon: prometheus.NewDesc("kinesin_due_next_5m_tasks", "About how many tasks wait in this process's partitions that are due within five minutes or overdue, "+
			"counted once a minute; not those that are in flight. The sum over all processes is the fleet's.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *depthCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.depth, c.oldest, c.stuck, c.full, c.ready, c.worker, c.flight, c.lag, c.soon, c.queues.messages, c.queues.oldest,
		c.health.damaged, c.health.bytes, c.health.passes,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *depthCollector) Collect(out chan<- prometheus.Metric) {
	counts, ready := c.n.store.Depths()
	var overdue map[task.Partition]task.Instant
	var stuck map[task.Partition]int64
	if c.n.scheduler != nil {
		overdue, stuck = c.n.scheduler.Overdue(), c.n.scheduler.Stuck()
	}
	now := c.n.clock.Now()
	for _, l := range c.n.catalog.All() {
		for priority, name := range l.Priorities {
			var sum store.Depth
			var oldest time.Duration
			var held int64
			for _, p := range partitionsOf(l, priority) {
				for s, n := range counts[p] {
					sum[s] += n
				}
				held += stuck[p]
				if due, ok := overdue[p]; ok {
					oldest = max(oldest, now.Sub(due))
				}
			}
			for _, s := range task.States() {
				if !s.IsEnd() && counts != nil {
					out <- prometheus.MustNewConstMetric(c.depth, prometheus.GaugeValue, float64(sum[s]), l.Name, name, s.String())
				}
			}
			out <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, oldest.Seconds(), l.Name, name)
			if l.Mode == task.Deliver {
				out <- prometheus.MustNewConstMetric(c.stuck, prometheus.GaugeValue, float64(held), l.Name, name)
			}
		}
	}
	c.queues.collect(out)
	out <- prometheus.MustNewConstMetric(c.full, prometheus.GaugeValue, boolean(c.n.store.Full()))
	out <- prometheus.MustNewConstMetric(c.ready, prometheus.GaugeValue, boolean(ready))
	c.health.collect(c.n.store, out)
	if c.n.scheduler != nil {
		out <- prometheus.MustNewConstMetric(c.flight, prometheus.GaugeValue, float64(c.n.scheduler.InFlight()))
		out <- prometheus.MustNewConstMetric(c.lag, prometheus.GaugeValue, c.n.scheduler.Lag().Seconds())
		out <- prometheus.MustNewConstMetric(c.soon, prometheus.GaugeValue, float64(c.n.scheduler.DueSoon()))
	}
	if c.n.hsc != nil {
		out <- prometheus.MustNewConstMetric(c.worker, prometheus.GaugeValue, float64(c.n.hsc.Workers()))
	}
}

func partitionsOf(l *catalog.Entry, priority int) []task.Partition {
	all := make([]task.Partition, l.Shards)
	for shard := range all {
		all[shard] = task.Partition{Lambda: l.Ref, Priority: uint8(priority), Shard: uint16(shard)}
	}
	return all
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
