package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// scrapeMax bounds the requests of one scrape to the queues; a queue that has not answered by then is
	// left out.
	scrapeMax = 3 * time.Second
	// scrapesAtOnceMax is how many queues are asked at a time.
	scrapesAtOnceMax = 8
)

// registerCollectors adds the series that are computed at each scrape.
func (n *Node) registerCollectors() {
	f := promauto.With(n.metrics.registry)
	gauge := func(name, help string, value func() float64) {
		f.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	n.metrics.registry.MustRegister(newClassCollector(n))
	gauge("kinesin_store_full", "Whether the store is out of space and takes no new tasks.", func() float64 { return boolean(n.store.Full()) })
	if _, known := n.store.Health(); known {
		n.registerStoreHealth(f)
	}
	if s := n.scheduler; s != nil {
		gauge("kinesin_inflight_tasks", "Tasks in flight that this process keeps in memory: dispatched and not ended.",
			func() float64 { return float64(s.InFlight()) })
		gauge("kinesin_schedule_lag_seconds", "How long ago the oldest task was due that this process has yet to dispatch; 0 if there is none.",
			func() float64 { return s.Lag().Seconds() })
		gauge("kinesin_due_next_5m_tasks", "Approximate number of waiting tasks in this process's partitions that are overdue or due within five minutes, "+
			"counted once a minute; without tasks in flight. Sum over all processes for the fleet.", func() float64 { return float64(s.DueSoon()) })
	}
	if n.hsc != nil {
		gauge("kinesin_workers", "Worker processes connected to this server.", func() float64 { return float64(n.hsc.Workers()) })
	}
	if n.members == nil {
		return
	}
	if w, is := n.members.watched.(podWatch); is {
		gauge("kinesin_fleet_members_kept", "Members kept because more than half are gone by the Kubernetes API server although they renew their lease rows.",
			func() float64 { return float64(w.Kept()) })
		gauge("kinesin_watch_contact_age_seconds", "Seconds since the Kubernetes API server last sent anything; it does at least once a minute.",
			func() float64 { return w.ContactAge().Seconds() })
	}
}

// podWatch is a membership by pods, with the state of its two sources.
type podWatch interface {
	Kept() int
	ContactAge() time.Duration
}

// registerStoreHealth adds the series of a store with files of its own.
func (n *Node) registerStoreHealth(f promauto.Factory) {
	health := func() store.Health { h, _ := n.store.Health(); return h }
	f.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kinesin_store_damaged_files", Help: "Damaged files of the embedded store; the process is not ready while there are any.",
	}, func() float64 { return float64(len(health().Damaged)) })
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "kinesin_store_scrubbed_bytes_total", Help: "Bytes of data files verified against their checksums in the background.",
	}, func() float64 { return float64(health().ScrubbedBytes) })
	f.NewCounterFunc(prometheus.CounterOpts{
		Name: "kinesin_store_scrubs_total", Help: "Completed verifications of all data files.",
	}, func() float64 { return float64(health().Scrubs) })
}

// classCollector computes the series of each priority of each lambda.
type classCollector struct {
	n *Node

	tasks, oldest, stuck, counted, messages, oldestMessage, held *prometheus.Desc
}

func newClassCollector(n *Node) *classCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &classCollector{
		n:       n,
		tasks:   desc("kinesin_tasks", "Live tasks by state; only of a store that counts them.", "lambda", "priority", "state"),
		counted: desc("kinesin_store_counted", "Whether the store has finished counting its tasks for kinesin_tasks after a start."),
		oldest: desc("kinesin_oldest_waiting_seconds", "How long ago the oldest task was due that has yet to be dispatched.",
			"lambda", "priority"),
		stuck: desc("kinesin_deliveries_stuck", "Tasks of deliver lambdas that were acquired but not sent; they are retried here, or their process is gone.",
			"lambda", "priority"),
		messages: desc("kinesin_queue_messages", "Approximate number of messages in the queue, by state; a message may hold several tasks.",
			"lambda", "priority", "state"),
		held: desc("kinesin_held_tasks", "About how many waiting tasks of this process's partitions are held back, by what, as of the last reads of the schedule, "+
			"which are minutes apart.", "lambda", "reason"),
		oldestMessage: desc("kinesin_queue_oldest_seconds", "Approximate age of the oldest due message in the queue.", "lambda", "priority"),
	}
}

// Describe implements prometheus.Collector.
func (c *classCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.tasks, c.oldest, c.stuck, c.counted, c.messages, c.oldestMessage, c.held} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *classCollector) Collect(out chan<- prometheus.Metric) {
	counts, ready := c.n.store.Depths()
	out <- prometheus.MustNewConstMetric(c.counted, prometheus.GaugeValue, boolean(ready))
	var overdue map[task.Partition]task.Instant
	var stuck, heldByGates, heldByQuotas, heldByKeys map[task.Partition]int64
	if c.n.scheduler != nil {
		overdue, stuck = c.n.scheduler.Overdue(), c.n.scheduler.Stuck()
		heldByGates, heldByQuotas = c.n.scheduler.Held(), c.n.scheduler.HeldByQuotas()
		heldByKeys = c.n.scheduler.HeldByKeys()
	}
	now := c.n.clock.Now()
	for _, l := range c.n.catalog.All() {
		var held struct{ gates, quotas, keys int64 }
		for priority, name := range l.Priorities {
			var sum store.Depth
			var oldest time.Duration
			var acquired int64
			for _, p := range partitionsOf(l, priority) {
				for s, n := range counts[p] {
					sum[s] += n
				}
				acquired += stuck[p]
				held.gates += heldByGates[p]
				held.keys += heldByKeys[p]
				held.quotas += heldByQuotas[p]
				if due, ok := overdue[p]; ok {
					oldest = max(oldest, now.Sub(due))
				}
			}
			for _, s := range task.States() {
				if !s.IsEnd() && counts != nil {
					out <- prometheus.MustNewConstMetric(c.tasks, prometheus.GaugeValue, float64(sum[s]), l.Name, name, s.String())
				}
			}
			out <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, oldest.Seconds(), l.Name, name)
			if l.Mode == task.Deliver {
				out <- prometheus.MustNewConstMetric(c.stuck, prometheus.GaugeValue, float64(acquired), l.Name, name)
			}
		}
		if c.n.gates.Has(l.Ref) {
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held.gates), l.Name, "gate")
		}
		if c.n.scheduler != nil && c.n.quotas.book.HasStarts(l.Ref) {
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held.quotas), l.Name, "quota")
		}
		if c.n.scheduler != nil && l.HasKeyLimits() {
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(held.keys), l.Name, "key")
		}
	}
	c.collectBrakes(out)
	c.collectQueues(out)
}

// collectBrakes tells how many tasks wait for a retry budget, of the lambdas that have one, for a worker, and
// for room in their queues. Where there is no worker, that is also what a full queue waits for.
func (c *classCollector) collectBrakes(out chan<- prometheus.Metric) {
	if c.n.scheduler == nil {
		return
	}
	retries, queues := byLambda(c.n.scheduler.HeldRetries()), byLambda(c.n.scheduler.HeldByQueues())
	dispatched := byLambda(c.n.scheduler.Dispatched())
	for _, l := range c.n.catalog.All() {
		if l.RetryShare > 0 {
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(retries[l.Ref]), l.Name, "retry budget")
		}
		if l.Mode == task.Managed {
			var workerless int64
			full := queues[l.Ref]
			if dispatched[l.Ref]+full > 0 && c.n.noWorker.is(l) {
				workerless, full = dispatched[l.Ref]+full, 0
			}
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(workerless), l.Name, "no worker")
			out <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, float64(full), l.Name, "queue full")
		}
	}
}

func byLambda(counts map[task.Partition]int64) map[uint32]int64 {
	of := map[uint32]int64{}
	for p, n := range counts {
		of[p.Lambda] += n
	}
	return of
}

// collectQueues asks the queues for their depths. If the queue is a service each depth is a request, so only
// the owner of a class's first partition asks.
func (c *classCollector) collectQueues(out chan<- prometheus.Metric) {
	if c.n.scheduler == nil {
		return
	}
	ctx, cancel := clock.Within(context.Background(), c.n.clock, scrapeMax)
	defer cancel()
	room := make(chan struct{}, scrapesAtOnceMax)
	var asking sync.WaitGroup
	defer asking.Wait()
	for _, l := range c.n.catalog.All() {
		for priority := range l.Priorities {
			if !c.n.scheduler.Fires(task.Partition{Lambda: l.Ref, Priority: uint8(priority)}) {
				continue
			}
			room <- struct{}{}
			asking.Go(func() {
				c.collectQueue(ctx, out, l, uint8(priority))
				<-room
			})
		}
	}
}

func (c *classCollector) collectQueue(ctx context.Context, out chan<- prometheus.Metric, l *catalog.Entry, priority uint8) {
	depth, err := c.n.queue.Depth(ctx, queue.Name{Lambda: l.Ref, Priority: priority})
	if err != nil {
		c.n.log.DebugContext(ctx, "queue left out of the metrics", slog.String("lambda", l.Name), slog.Any("error", err))
		return
	}
	name := l.Priorities[priority]
	out <- prometheus.MustNewConstMetric(c.messages, prometheus.GaugeValue, float64(depth.Visible), l.Name, name, "visible")
	out <- prometheus.MustNewConstMetric(c.messages, prometheus.GaugeValue, float64(depth.InFlight), l.Name, name, "in_flight")
	out <- prometheus.MustNewConstMetric(c.oldestMessage, prometheus.GaugeValue, depth.Oldest.Seconds(), l.Name, name)
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
