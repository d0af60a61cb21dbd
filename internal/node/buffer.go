package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// bufferMetrics holds the series of the inbound buffer.
type bufferMetrics struct {
	ways     *prometheus.CounterVec // way
	rejected *prometheus.CounterVec // reason
	left     *prometheus.CounterVec // why
	consumed prometheus.Counter
	age      prometheus.Histogram
	trouble  prometheus.Counter
}

func newBufferMetrics(f promauto.Factory, c MetricsConfig) bufferMetrics {
	m := bufferMetrics{
		ways: counters(f, "kinesin_inbound_accepted_total", "Accepted tasks by where they were stored first: the inbound buffer, the store, the store "+
			"because the buffer failed or was slow (fallback), the buffer by a client that sends to it directly (direct), or the queue of a deliver lambda.", "way"),
		rejected: counters(f, "kinesin_inbound_rejected_total", "Messages and tasks of the inbound buffer, and tasks that may have run, that were set aside.", "reason"),
		left:     counters(f, "kinesin_inbound_left_total", "Messages left in the inbound buffer for a later receive.", "why"),
		consumed: counter(f, "kinesin_inbound_consumed_total", "Tasks moved from the inbound buffer to the store."),
		age: f.NewHistogram(c.histogram(prometheus.HistogramOpts{
			Name: "kinesin_inbound_age_seconds", Buckets: latenessBuckets,
			Help: "Time since the oldest task of a batch from the inbound buffer was accepted.",
		})),
		trouble: counter(f, "kinesin_inbound_pauses_total", "Pauses in consuming the inbound buffer because it or the store failed."),
	}
	for _, way := range intake.Ways() {
		m.ways.WithLabelValues(way)
	}
	for _, reason := range ingest.Reasons() {
		m.rejected.WithLabelValues(reason)
	}
	for _, why := range ingest.Lefts() {
		m.left.WithLabelValues(why)
	}
	return m
}

func (n *Node) ingestHooks() ingest.Hooks {
	m := &n.metrics.buffer
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
			m.trouble.Inc()
			n.log.WarnContext(ctx, "consuming the inbound buffer paused", slog.Duration("pause", pause), slog.Any("error", err))
		},
		Ignored: func(ctx context.Context, why string, err error) {
			n.log.WarnContext(ctx, "a message of the inbound queue is left to the queue's dead-letter queue",
				slog.String("why", why), slog.Any("error", err))
		},
		Ended: n.ended,
	}
}

// newRejected returns what keeps rejected messages and tasks.
func (n *Node) newRejected(in *intake.Intake) *ingest.Rejected {
	return ingest.NewRejected(ingest.RejectedConfig{
		Intake: in, Store: n.store,
		Kept: func(ctx context.Context, reason string, err error) {
			n.metrics.buffer.rejected.WithLabelValues(reason).Inc()
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
