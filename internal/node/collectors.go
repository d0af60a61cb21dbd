package node

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// scrapeMax bounds the requests of one scrape to the queues; a queue that has not answered by then is
	// left out.
	scrapeMax = 3 * time.Second
	// scrapesAtOnceMax is how many queues are asked at a time.
	scrapesAtOnceMax = 8
	// rankEvery is how often, at a scrape, the lambdas with series of their own are chosen.
	rankEvery = time.Minute
)

// registerCollectors adds the series that are computed at each scrape.
func (n *Node) registerCollectors() {
	m := n.metrics
	m.Computed("kinesin_store_full", "Whether the store is out of space and takes no new tasks.", func() float64 { return boolean(n.store.Full()) })
	if _, known := n.store.Health(); known {
		health := func() store.Health { h, _ := n.store.Health(); return h }
		m.Computed("kinesin_store_damaged_files", "Damaged files of the embedded store; the process is not ready while there are any.",
			func() float64 { return float64(len(health().Damaged)) })
		m.computedTotal("kinesin_store_scrubbed_bytes_total", "Bytes of data files verified against their checksums in the background.",
			func() float64 { return float64(health().ScrubbedBytes) })
		m.computedTotal("kinesin_store_scrubs_total", "Completed verifications of all data files.", func() float64 { return float64(health().Scrubs) })
	}
	if s := n.scheduler; s != nil {
		m.Computed("kinesin_inflight_tasks", "Tasks in flight that this process keeps in memory: dispatched and not ended.",
			func() float64 { return float64(s.InFlight()) })
		m.Computed("kinesin_schedule_lag_seconds", "How long ago the oldest task was due that this process has yet to dispatch, or may be: while the store cannot be read, since what was read of it; 0 if there is none.",
			func() float64 { return s.Lag().Seconds() })
		m.Computed("kinesin_due_next_5m_tasks", "Approximate number of waiting tasks in this process's partitions that are overdue or due within five minutes, "+
			"without tasks in flight; as fresh as kinesin_due_tasks. Sum over all processes for the fleet.", func() float64 { return float64(s.DueSoon()) })
	}
	if n.hsc != nil {
		m.Computed("kinesin_workers", "Worker processes connected to this server.", func() float64 { return float64(n.hsc.Workers()) })
	}
	kept := m.scraped("kinesin_fleet_members_kept", "Members kept because more than half are gone by the Kubernetes API server although they renew their lease rows.")
	age := m.scraped("kinesin_watch_contact_age_seconds", "Seconds since the Kubernetes API server last sent anything; it does at least once a minute.")
	m.scrapes = append(m.scrapes, newClassCollector(n).collect, func(out *gauges) {
		if n.members == nil {
			return
		}
		if w, is := n.members.watched.(podWatch); is {
			out.add(kept, float64(w.Kept()))
			out.add(age, w.ContactAge().Seconds())
		}
	})
}

// podWatch is a membership by pods, with the state of its two sources.
type podWatch interface {
	Kept() int
	ContactAge() time.Duration
}

// classCollector computes the series of each priority of each lambda.
type classCollector struct {
	n *Node

	tasks, oldest, stuck, counted, messages, oldestMessage, held, due, outage, buffered *prometheus.Desc
	objective, budget, burn, waiting                                                    *prometheus.Desc

	mu     sync.Mutex
	ranked time.Duration // monotonic time
}

func newClassCollector(n *Node) *classCollector {
	m := n.metrics
	return &classCollector{
		n:       n,
		tasks:   m.scraped("kinesin_tasks", "Live tasks by state; only of a store that counts them.", "lambda", "priority", "state"),
		counted: m.scraped("kinesin_store_counted", "Whether the store has finished counting its tasks for kinesin_tasks after a start."),
		oldest: m.scraped("kinesin_oldest_waiting_seconds", "How long ago the oldest task was due that has yet to be dispatched.",
			"lambda", "priority"),
		stuck: m.scraped("kinesin_deliveries_stuck", "Tasks of deliver lambdas that were acquired but not sent; they are retried here, or their process is gone.",
			"lambda", "priority"),
		messages: m.scraped("kinesin_queue_messages", "Approximate number of messages in the queue, by state; a message may hold several tasks.",
			"lambda", "priority", "state"),
		held: m.scraped("kinesin_held_tasks", "About how many waiting tasks of this process's partitions are held back, by what, as of the last reads of the schedule, "+
			"which are minutes apart.", "lambda", "reason"),
		due: m.scraped("kinesin_due_tasks", "About how many waiting tasks of this process's partitions are overdue or due within the horizon, without tasks in flight. "+
			"Counted every 5 s of a store of one process; of a shared one every 5 s for the next 10 s, which are read ahead, and once a minute beyond. Sum over all processes for the fleet; scale workers by it and kinesin_queue_messages.", "lambda", "horizon"),
		outage: m.scraped("kinesin_outage_seconds", "For how long no call of this process to the service, store or queue, was answered, or no write completed by the disk of the embedded store; 0 if the last one was.", "service"),
		buffered: m.scraped("kinesin_inbound_messages", "Approximate number of messages in the inbound buffer, by state: visible or hidden. A message may hold several tasks.",
			"state"),
		objective: m.scraped("kinesin_objective_ratio", "Share of a lambda's tasks that is to start in time: its objective.", "lambda"),
		budget: m.scraped("kinesin_objective_budget_left", "Share of the budget of late tasks that is left over the objective's window, of the whole fleet, "+
			"as far as it is stored; negative when more was late than may be.", "lambda"),
		waiting:       m.scraped("kinesin_objective_waiting_tasks", "Tasks of the whole fleet that are late for their lambda's objective already and have not started, as of the last minute.", "lambda"),
		burn:          m.scraped("kinesin_objective_burn", "How fast the budget is used up by the whole fleet; 1 uses up all of it in one window.", "lambda", "over"),
		oldestMessage: m.scraped("kinesin_queue_oldest_seconds", "Approximate age of the oldest due message in the queue.", "lambda", "priority"),
	}
}

// collect finds the values.
func (c *classCollector) collect(out *gauges) {
	c.rank()
	out.add(c.outage, max(c.n.storeOutage.lasts(), c.n.diskWait()).Seconds(), "store")
	out.add(c.outage, c.n.queueOutage.lasts().Seconds(), "queue")
	counts, ready := c.n.store.Depths()
	out.add(c.counted, boolean(ready))
	var overdue map[task.Partition]task.Instant
	if c.n.scheduler != nil {
		overdue = c.n.scheduler.Overdue()
	}
	now := c.n.clock.Now()
	for _, l := range c.n.catalog.All() {
		var held scheduler.Counts
		label := c.n.metrics.labels.lambda(l)
		for priority := range l.Priorities {
			_, name := c.n.metrics.labels.of(l, uint8(priority))
			c.n.metrics.made(l, uint8(priority))
			var sum store.Depth
			var oldest time.Duration
			var here scheduler.Counts
			for _, p := range partitionsOf(l, priority) {
				for s, n := range counts[p] {
					sum[s] += n
				}
				if c.n.scheduler != nil {
					here.Add(c.n.scheduler.Counts(p))
				}
				if due, ok := overdue[p]; ok {
					oldest = max(oldest, now.Sub(due))
				}
			}
			for _, s := range task.States() {
				if !s.IsEnd() && counts != nil {
					out.add(c.tasks, float64(sum[s]), label, name, s.String())
				}
			}
			out.most(c.oldest, oldest.Seconds(), label, name)
			if l.Mode == task.Deliver {
				out.add(c.stuck, float64(here.Stuck), label, name)
			}
			held.Add(here)
		}
		c.collectHeld(out, l, &held)
	}
	c.collectDue(out)
	c.collectBuffer(out)
	c.collectObjectives(out)
	c.collectQueues(out)
}

// collectDue tells what is due soon, by lambda.
func (c *classCollector) collectDue(out *gauges) {
	if c.n.scheduler == nil {
		return
	}
	due := c.n.scheduler.Due()
	for _, l := range c.n.catalog.All() {
		for i, horizon := range scheduler.DueHorizons {
			out.add(c.due, float64(due[l.Ref][i]), c.n.metrics.labels.lambda(l), strconv.Itoa(int(horizon.Minutes()))+"m")
		}
	}
}

// collectObjectives tells how objectives are met. All processes tell the same.
func (c *classCollector) collectObjectives(out *gauges) {
	for _, s := range c.n.objectives.Statuses() {
		if l, err := c.n.catalog.Lambda(s.Lambda); err == nil { // from zero on, as the series of a class
			for _, inTime := range []string{"false", "true"} {
				c.n.metrics.objective.WithLabelValues(c.n.metrics.labels.lambda(l), inTime)
			}
		}
		out.add(c.objective, s.Percent/100, s.Lambda)
		out.add(c.budget, s.BudgetLeft(), s.Lambda)
		out.add(c.waiting, float64(s.Waiting), s.Lambda)
		for _, b := range s.Burns {
			out.add(c.burn, b.Burn(s.Percent), s.Lambda, strconv.Itoa(int(b.Over.Hours()))+"h")
		}
	}
}

// collectBuffer asks the inbound buffer for its depth.
func (c *classCollector) collectBuffer(out *gauges) {
	if c.n.buffer == nil {
		return
	}
	ctx, cancel := clock.Within(context.Background(), c.n.clock, scrapeMax)
	defer cancel()
	visible, hidden, err := c.n.buffer.Depth(ctx)
	if err != nil {
		c.n.log.DebugContext(ctx, "inbound buffer left out of the metrics", slog.Any("error", err))
		return
	}
	out.add(c.buffered, float64(visible), "visible")
	out.add(c.buffered, float64(hidden), "hidden")
}

// rank gives series to the lambdas that are used most, now and then.
func (c *classCollector) rank() {
	c.mu.Lock()
	now := clock.Mono(c.n.clock)
	isDue := now-c.ranked >= rankEvery
	if isDue {
		c.ranked = now
	}
	c.mu.Unlock()
	if isDue {
		c.n.metrics.rank()
	}
}

// collectHeld tells how many tasks of a lambda are held back, by what can hold them. Where there is no worker, that is
// also what a full queue waits for.
func (c *classCollector) collectHeld(out *gauges, l *catalog.Entry, held *scheduler.Counts) {
	by := func(reason string, n int64) { out.add(c.held, float64(n), c.n.metrics.labels.lambda(l), reason) }
	if c.n.gates.Has(l.Ref) {
		by("gate", held.Gates)
	}
	if c.n.scheduler == nil {
		return
	}
	by("unexplained", held.Unexplained)
	if c.n.quotas.book.HasStarts(l.Ref) {
		by("quota", held.Quotas)
	}
	if l.HasKeyLimits() {
		by("key", held.Keys)
	}
	if l.RetryShare > 0 {
		by("retry budget", held.Retries)
	}
	if l.Mode == task.Managed {
		var workerless int64
		full := held.Queue
		if held.InFlight+full > 0 && c.n.noWorker.is(l) {
			workerless, full = held.InFlight+full, 0
		}
		by("no worker", workerless)
		by("queue full", full)
	}
}

// collectQueues asks the queues for their depths. If the queue is a service each depth is a request, so only
// the owner of a class's first partition asks.
func (c *classCollector) collectQueues(out *gauges) {
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

func (c *classCollector) collectQueue(ctx context.Context, out *gauges, l *catalog.Entry, priority uint8) {
	depth, err := c.n.queue.Depth(ctx, queue.Name{Lambda: l.Ref, Priority: priority})
	if err != nil {
		c.n.log.DebugContext(ctx, "queue left out of the metrics", slog.String("lambda", l.Name), slog.Any("error", err))
		return
	}
	lambda, name := c.n.metrics.labels.of(l, priority)
	out.add(c.messages, float64(depth.Visible), lambda, name, "visible")
	out.add(c.messages, float64(depth.InFlight), lambda, name, "in_flight")
	out.most(c.oldestMessage, depth.Oldest.Seconds(), lambda, name)
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
