package node

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/hsc"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/tracing"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/task"
)

// The hooks of the roles update the metrics, here and nowhere else.

func (n *Node) intakeHooks() intake.Hooks {
	return intake.Hooks{
		Accepted: func(l *catalog.Entry, priority uint8, way string, count int) {
			n.metrics.of(l, priority).accepted.Add(float64(count))
			n.metrics.ways.WithLabelValues(way).Add(float64(count))
		},
		Delivered: func(t *task.Task, late time.Duration) {
			n.delivered(t, late)
		},
	}
}

func (n *Node) inboundHooks() inbound.Hooks {
	return inbound.Hooks{
		Refused:  func(reason kinesinv1.Reason) { n.metrics.refused.WithLabelValues(reasonLabel(reason)).Inc() },
		Internal: n.internalError, Throttled: n.recent.throttled,
		Ended: func(t *task.Task) {
			n.memberEnded(t)
			n.rateEnd(t)
		},
	}
}

func (n *Node) fleetHooks() fleet.Hooks {
	return fleet.Hooks{
		ClockAhead: func(_ string, by time.Duration) { n.metrics.clockAhead.Observe(by.Seconds()) },
	}
}

func (n *Node) dispatcherHooks() dispatcher.Hooks {
	return dispatcher.Hooks{
		Lateness: func(t *task.Task, late time.Duration) {
			l := n.catalog.ByRef(t.Partition.Lambda)
			n.late(l, t, stageEnqueued, late)
			if n.tracer.Traces(t) {
				n.tracer.Dispatched(t, nameOf(l), n.clock.Now())
			}
		},
		Unsent: func(count int) { n.metrics.unsent.Add(float64(count)) },
	}
}

func (n *Node) schedulerHooks() scheduler.Hooks {
	return scheduler.Hooks{
		Waked: func(t *task.Task, kind task.EventKind) {
			n.metrics.waked(kind)
			if kind == task.WorkerLost {
				n.breakers.Ended(t.Partition.Lambda, t.ClaimedAt, true)
				n.traceLost(t)
			}
		},
		Ended:  n.endedUnrun,
		Rests:  n.rests,
		Lost:   func(string) { n.metrics.lost.Inc() },
		Failed: func(task.Partition, error) { n.metrics.failures.Inc() },
		Assigned: func(s *scheduler.Assignment) {
			n.metrics.owned.Set(float64(s.Owned))
			n.metrics.moved.WithLabelValues("gained").Add(float64(s.Gained))
			n.metrics.moved.WithLabelValues("lost").Add(float64(s.Lost))
			n.moves.add(n.clock.Now(), s)
			if n.members.rows != nil {
				n.metrics.members.Set(float64(len(s.Members)))
			}
		},
		Warm: func(s *scheduler.Assignment) {
			n.metrics.warmed.Observe(s.Warm.Seconds())
			n.moves.warm(s)
		},
	}
}

// endedUnrun notes that a task has ended without an attempt.
func (n *Node) endedUnrun(t *task.Task) {
	n.waits.Ended([]task.ID{t.ID})
	n.memberEnded(t)
	n.countEnd(n.catalog.ByRef(t.Partition.Lambda), t)
	n.rateEnd(t)
}

// rateEnd counts the end of a task in the rates of its lambda and of this process.
func (n *Node) rateEnd(t *task.Task) {
	n.recent.ended(t.Partition.Lambda)
	n.history.ended(t.State)
}

func (n *Node) hscHooks() hsc.Hooks {
	return hsc.Hooks{
		Claimed: func(l *catalog.Entry, t *task.Task) {
			if n.tracer.Traces(t) {
				n.tracer.Claimed(t, nameOf(l))
			}
			if t.Attempt == 1 {
				n.late(l, t, stageClaimed, max(0, t.ClaimedAt.Sub(t.Due)))
			}
		},
		Matched: func(l *catalog.Entry, t *task.Task) {
			n.metrics.of(l, t.Partition.Priority).matched.Inc()
			if n.tracer.Traces(t) {
				n.tracer.Dispatched(t, nameOf(l), n.clock.Now())
			}
		},
		Started: func(l *catalog.Entry, t *task.Task, late time.Duration) {
			n.late(l, t, stageStarted, late)
			n.countStart(l, t, late)
			n.recent.started(t.Partition, late)
			n.history.started(late)
		},
		Finished: func(l *catalog.Entry, t *task.Task, o task.Outcome) {
			if l != nil {
				n.metrics.of(l, t.Partition.Priority).finished[o].Inc()
			}
			n.countEnd(l, t)
			n.noteOutcome(t, o)
			if n.tracer.Traces(t) {
				n.tracer.Attempted(t, nameOf(l), o.String(), o == task.OutcomeRetriable || o == task.OutcomeFatal, n.clock.Now())
			}
			if t.State.IsEnd() {
				n.memberEnded(t)
				n.rateEnd(t)
			}
			if o == task.OutcomeRetriable || o == task.OutcomeFatal {
				n.recent.failed(t.Partition.Lambda)
				n.history.failed()
			}
		},
		Died: func(_ string, tasks int) {
			n.metrics.lost.Inc()
			n.metrics.byEvent[task.WorkerLost].Add(float64(tasks))
		},
		Lost: func(t *task.Task) {
			n.breakers.Ended(t.Partition.Lambda, t.ClaimedAt, true)
			n.traceLost(t)
			n.countEnd(n.catalog.ByRef(t.Partition.Lambda), t)
		},
		Refused: func(reason string, count int) { n.metrics.claims.WithLabelValues(reason).Add(float64(count)) },
		Failed:  n.hscFailed,
	}
}

// countEnd counts a task that has ended, if that was because it never started, or as a dead letter.
func (n *Node) countEnd(l *catalog.Entry, t *task.Task) {
	if l == nil {
		return
	}
	switch t.State {
	case task.Expired:
		n.metrics.of(l, t.Partition.Priority).expired.Inc()
		n.countStart(l, t, neverStarted)
	case task.Dead, task.FatalFailure:
		n.metrics.of(l, t.Partition.Priority).dead.Inc()
		if t.State == task.Dead {
			n.objectives.Died(l.Ref)
		}
	default: // an end that was wanted, or none
	}
}

// hscFailed counts and logs a failure of the HSC. It leaves out calls that were cancelled.
func (n *Node) hscFailed(what string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	n.metrics.hscFailures.WithLabelValues(strings.ReplaceAll(what, " ", "_")).Inc()
	n.log.Warn("hsc failed", slog.String("what", what), slog.Any("error", err))
}

// traceLost ends the span of an attempt whose worker was lost.
func (n *Node) traceLost(t *task.Task) {
	if n.tracer.Traces(t) {
		n.tracer.Attempted(t, nameOf(n.catalog.ByRef(t.Partition.Lambda)), "worker lost", true, n.clock.Now())
	}
}

func (n *Node) delivered(t *task.Task, late time.Duration) {
	l := n.catalog.ByRef(t.Partition.Lambda)
	n.late(l, t, stageDelivered, max(0, late))
	n.countStart(l, t, late)
	if n.tracer.Traces(t) {
		n.tracer.Delivered(t, nameOf(l), n.clock.Now())
	}
	n.countDelivered(t, max(0, late))
}

// countDelivered counts a task of a deliver lambda, which starts and ends when it is delivered.
func (n *Node) countDelivered(t *task.Task, late time.Duration) {
	n.recent.delivered(t.Partition, late)
	n.history.started(late)
	n.history.ended(task.Delivered)
}

func (n *Node) undelivered(t *task.Task, err error) {
	if l := n.catalog.ByRef(t.Partition.Lambda); l != nil {
		lambda, priority := n.metrics.labels.of(l, t.Partition.Priority)
		n.metrics.undelivered.WithLabelValues(lambda, priority).Inc()
	}
	n.log.Debug("delivery failed; retrying", slog.String("task_id", t.ID.String()), slog.Any("error", err))
}

// neverStarted is the lateness of a task that ended without a start.
const neverStarted = time.Duration(math.MaxInt64)

// countStart counts a start for the objective of its lambda.
func (n *Node) countStart(l *catalog.Entry, t *task.Task, late time.Duration) {
	if counted, inTime := n.objectives.Started(t.Partition.Lambda, late); counted && l != nil {
		n.metrics.objective.WithLabelValues(n.metrics.labels.lambda(l), strconv.FormatBool(inTime)).Inc()
	}
}

// late observes the lateness of a task at a stage; of a traced one with its trace as an exemplar.
func (n *Node) late(l *catalog.Entry, t *task.Task, s stage, late time.Duration) {
	if l == nil {
		return
	}
	series := n.metrics.of(l, t.Partition.Priority).lateness[s]
	if n.tracer.Traces(t) {
		if with, can := series.(prometheus.ExemplarObserver); can {
			with.ObserveWithExemplar(late.Seconds(), prometheus.Labels{"trace_id": tracing.TraceID(t)})
			return
		}
	}
	series.Observe(late.Seconds())
}

// reasonLabel returns the wire's name of a reason without its prefix.
func reasonLabel(reason kinesinv1.Reason) string {
	return strings.ToLower(strings.TrimPrefix(reason.String(), "REASON_"))
}

func (n *Node) internalError(ctx context.Context, procedure string, err error) {
	n.metrics.internal.Inc()
	n.log.ErrorContext(ctx, "call failed", slog.String("procedure", procedure), slog.Any("error", err))
}

func (n *Node) ingestHooks() ingest.Hooks {
	m := n.metrics
	return ingest.Hooks{
		Consumed: func(count int, age time.Duration) {
			m.consumed.Add(float64(count))
			m.age.Observe(age.Seconds())
		},
		Stored: func(t *task.Task, l *catalog.Entry) {
			if n.tracer.Traces(t) {
				n.tracer.Buffered(t, nameOf(l), n.clock.Now())
			}
		},
		Left: func(why string, count int) { m.left.WithLabelValues(why).Add(float64(count)) },
		Paused: func(ctx context.Context, err error, pause time.Duration) {
			m.pauses.Inc()
			n.log.WarnContext(ctx, "consuming the inbound buffer paused", slog.Duration("pause", pause), slog.Any("error", err))
		},
		Ignored: func(ctx context.Context, why string, err error) {
			n.log.WarnContext(ctx, "a message of the inbound queue is left to the queue's dead-letter queue",
				slog.String("why", why), slog.Any("error", err))
		},
		Ended: n.waits.Ended,
	}
}

// newRejected returns what keeps rejected messages and tasks.
func (n *Node) newRejected(in *intake.Intake) *ingest.Rejected {
	return ingest.NewRejected(ingest.RejectedConfig{
		Intake: in, Store: n.store,
		Kept: func(ctx context.Context, reason string, err error) {
			n.metrics.rejected.WithLabelValues(reason).Inc()
			n.log.WarnContext(ctx, "rejected; see `kinesin inbound rejected`", slog.String("reason", reason), slog.Any("error", err))
		},
	})
}

// consumeEndMax bounds the last sends to the inbound buffer of a process that stops.
const consumeEndMax = 10 * time.Second

// consume moves tasks from the inbound buffer to the store until ctx ends.
func (n *Node) consume(ctx context.Context) error {
	err := n.ingest.Run(ctx)
	closing, cancel := clock.Within(context.WithoutCancel(ctx), n.clock, consumeEndMax)
	defer cancel()
	return errors.Join(err, n.inbound.Close(closing))
}
