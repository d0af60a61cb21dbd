package node

import (
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// The roles call hooks; metrics subscribe to them here and nowhere else.

func (n *Node) inboundHooks() inbound.Hooks {
	return n.withBufferHooks(inbound.Hooks{
		Accepted: func(l *catalog.Entry, priority uint8, count int) {
			n.metrics.of(l, priority).accepted.Add(float64(count))
		},
		Refused: func(reason kinesinv1.Reason) { n.metrics.refused.WithLabelValues(reasonLabel(reason)).Inc() },
		Delivered: func(t *task.Task, late time.Duration) {
			n.late(n.catalog.ByRef(t.Partition.Lambda), t, stageDelivered, max(0, late))
		},
		Internal: n.internalError,
	})
}

func (n *Node) fleetHooks() fleet.Hooks {
	return fleet.Hooks{
		ClockAhead: func(_ string, by time.Duration) { n.metrics.clockAhead.Observe(by.Seconds()) },
	}
}

func (n *Node) dispatcherHooks() dispatcher.Hooks {
	return dispatcher.Hooks{
		Lateness: func(t *task.Task, late time.Duration) {
			n.late(n.catalog.ByRef(t.Partition.Lambda), t, stageEnqueued, late)
		},
		Unsent: func(count int) { n.metrics.unsent.Add(float64(count)) },
	}
}

func (n *Node) schedulerHooks() scheduler.Hooks {
	return scheduler.Hooks{
		Waked:  func(_ *task.Task, kind task.EventKind) { n.metrics.waked(kind) },
		Lost:   func(string) { n.metrics.lost.Inc() },
		Failed: func(task.Partition, error) { n.metrics.failures.Inc() },
		Assigned: func(s *scheduler.Assignment) {
			n.metrics.ownership.shared(s)
			if n.members.rows != nil {
				n.metrics.ownership.members.Set(float64(len(s.Members)))
			}
		},
		Warm: n.metrics.ownership.warm,
	}
}

// becameReady lets the process be told of as ready: all that it fires has been read ahead.
func (n *Node) becameReady() {
	n.members.ready()
	n.warm.Store(true)
}

func (n *Node) foundClaimed(t *task.Task) {
	if n.hsc != nil {
		n.hsc.Found(t)
	}
}

func (n *Node) hscHooks() hsc.Hooks {
	return hsc.Hooks{
		Claimed: func(l *catalog.Entry, t *task.Task, _ time.Duration) {
			if t.Attempt == 1 {
				n.late(l, t, stageClaimed, max(0, t.ClaimedAt.Sub(t.Due)))
			}
		},
		Matched: func(l *catalog.Entry, t *task.Task) { n.metrics.of(l, t.Partition.Priority).matched.Inc() },
		Started: func(l *catalog.Entry, t *task.Task, late time.Duration) { n.late(l, t, stageStarted, late) },
		Finished: func(l *catalog.Entry, t *task.Task, o task.Outcome, _ time.Duration) {
			if l != nil {
				n.metrics.of(l, t.Partition.Priority).finished[o].Inc()
			}
		},
		Died: func(_ string, tasks int) {
			n.metrics.lost.Inc()
			n.metrics.byEvent[task.WorkerLost].Add(float64(tasks))
		},
		Refused: func(reason string, count int) { n.metrics.claims.WithLabelValues(reason).Add(float64(count)) },
		Failed:  n.hscFailed(),
	}
}

func (n *Node) late(l *catalog.Entry, t *task.Task, s stage, late time.Duration) {
	if l != nil {
		n.metrics.of(l, t.Partition.Priority).lateness[s].Observe(late.Seconds())
	}
}

// reasonLabel is the wire's name of a reason without its prefix.
func reasonLabel(reason kinesinv1.Reason) string {
	return strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))
}
