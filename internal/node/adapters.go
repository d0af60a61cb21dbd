package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// newStarter returns what decides how tasks start.
func (n *Node) newStarter(c *Config, hints intake.Scheduler) *dispatcher.Starter {
	s := dispatcher.StarterConfig{
		Queue: n.queue, Lambdas: n.catalog, Clock: c.Clock, Counted: n.isCounted, Enqueued: hints.Enqueued,
	}
	if !c.NoMatch {
		s.Register = &n.slots
	}
	return dispatcher.NewStarter(s)
}

// becameReady declares this process ready: all its partitions have been read.
func (n *Node) becameReady() {
	n.members.ready()
	n.warm.Store(true)
}

// delivery returns what the scheduler needs for deliver lambdas.
func (n *Node) delivery(c *Config, seal *task.Sealer) *scheduler.Delivery {
	return &scheduler.Delivery{
		Is: func(p task.Partition) bool {
			l := n.catalog.ByRef(p.Lambda)
			return l != nil && l.Mode == task.Deliver
		},
		Deliverer: dispatcher.NewDeliverer(dispatcher.DelivererConfig{
			Store: n.store, Queue: n.queue, Lambdas: n.catalog, Sealer: seal, Clock: c.Clock, Log: c.Log,
			Hooks: dispatcher.DelivererHooks{Delivered: n.delivered, Undelivered: n.undelivered, Dropped: n.endedUnrun}, Ended: n.waits.Ended, Together: c.together(),
		}),
	}
}

// holding lets the scheduler ask gates.
func (n *Node) holding() *scheduler.Gating {
	return &scheduler.Gating{Gates: n.gates, Retention: n.retention, Pace: n.takePace}
}

// Of a gate's pace a server reserves a fifth of a second at a time, and spends what it has within half a
// second: scans of partitions, which ask, are at least 100 ms apart.
const paceAhead, paceBurst = 5, 2 // parts of a second

// takePace takes the start of a task that a gate holds which resumes at a pace, over all servers. A partition
// asks as long as it has such tasks, and those of lower priorities wait meanwhile, or take turns by weights.
func (n *Node) takePace(g *hold.Gate, p task.Partition) (granted bool, again task.Instant) {
	starts, wait := n.quotas.starts.Limiter.Take(limit.Ask{
		Name: "gate/" + g.ID, Rate: float64(g.Pace), Burst: g.Pace/paceBurst + 1, Caller: p, Class: p.Priority, Weights: n.weights(p.Lambda),
		Want: 1, Wait: max(2, int(g.Pace)/paceAhead),
	})
	if wait.More != nil { // a reservation is under way, which is soon over
		return starts > 0, n.clock.Now()
	}
	return starts > 0, wait.Again
}

// isCounted reports whether only the scheduler may start tasks of a lambda: the gates, quotas and limits by key
// of a lambda are kept there.
func (n *Node) isCounted(lambda uint32) bool {
	return n.gates.Has(lambda) || n.quotas.book.HasStarts(lambda) || n.quotas.running.keyLimited(lambda) != nil
}

// isHeld reports whether a gate keeps a task from being claimed.
func (n *Node) isHeld(t *task.Task, now task.Instant) bool {
	return n.gates.OfLambda(t.Partition.Lambda).Of(t, now) != nil
}

func (n *Node) retention(lambda uint32) (time.Duration, bool) {
	l, known := n.Lambda(lambda)
	return l.Retention, known
}

// downtime lets the scheduler set aside tasks that may have run although no row tells, in the same place as
// rejected messages of the inbound buffer; that works without inbound's role. It returns nil if the store
// keeps ended rows as long as they are needed.
func (n *Node) downtime(c *Config, seal *task.Sealer) *scheduler.Downtime {
	if !n.store.EndedExpire() {
		return nil
	}
	return &scheduler.Downtime{
		Rows:      n.store,
		Retention: n.retention,
		Aside:     n.newRejected(intake.New(intake.Config{Store: n.store, Catalog: n.catalog, Sealer: seal, Clock: c.Clock})),
	}
}

// cancels tells the worker of a task to stop it, on whichever server it is connected to.
type cancels struct{ n *Node }

func (c cancels) CancelRequested(t *task.Task) {
	if c.n.hsc != nil {
		c.n.hsc.CancelRequested(*t)
		return
	}
	ctx, cancel := clock.Within(context.Background(), c.n.clock, attendWithin)
	defer cancel()
	if err := c.n.leases.Attend(ctx, t.Worker); err != nil && !errors.Is(err, lease.ErrLost) { // if so, its rows tell later
		c.n.log.WarnContext(ctx, "worker not told of a cancel", slog.String("worker", t.Worker), slog.Any("error", err))
	}
}

// attendWithin bounds how long a cancel waits for its worker's lease to be marked.
const attendWithin = time.Second

// noScheduler stands in for a scheduler on a server without that role.
type noScheduler struct{}

func (noScheduler) Added(*task.Task)    {}
func (noScheduler) Awake(*task.Task)    {}
func (noScheduler) Enqueued(*task.Task) {}
func (noScheduler) Done([]task.Task)    {}
