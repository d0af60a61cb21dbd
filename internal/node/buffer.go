package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/inbound"
)

// bufferMetrics are the series of the inbound buffer.
type bufferMetrics struct {
	ways     *prometheus.CounterVec // way
	rejected *prometheus.CounterVec // reason
	left     *prometheus.CounterVec // why
	consumed prometheus.Counter
	age      prometheus.Histogram
	trouble  prometheus.Counter
}

func newBufferMetrics(f promauto.Factory) bufferMetrics {
	m := bufferMetrics{
		ways: counters(f, "kinesin_inbound_accepted_total", "Accepted tasks by where they were stored first: the inbound buffer, the store, the store "+
			"because the buffer failed or was slow (fallback), the buffer by a client that sends to it directly (direct), or the queue of a deliver lambda.", "way"),
		rejected: counters(f, "kinesin_inbound_rejected_total", "Messages and tasks of the inbound buffer, and tasks that may have run, that were set aside.", "reason"),
		left:     counters(f, "kinesin_inbound_left_total", "Messages left in the inbound buffer for a later receive.", "why"),
		consumed: counter(f, "kinesin_inbound_consumed_total", "Tasks moved from the inbound buffer to the store."),
		age: f.NewHistogram(prometheus.HistogramOpts{
			Name: "kinesin_inbound_age_seconds", Buckets: latenessBuckets,
			Help: "Time since the oldest task of a batch from the inbound buffer was accepted.",
		}),
		trouble: counter(f, "kinesin_inbound_pauses_total", "Pauses in consuming the inbound buffer because it or the store failed."),
	}
	for _, way := range inbound.Ways() {
		m.ways.WithLabelValues(way)
	}
	for _, reason := range inbound.Reasons() {
		m.rejected.WithLabelValues(reason)
	}
	for _, why := range inbound.Lefts() {
		m.left.WithLabelValues(why)
	}
	return m
}

// withBufferHooks adds the hooks of the inbound buffer.
func (n *Node) withBufferHooks(h inbound.Hooks) inbound.Hooks {
	m := &n.metrics.buffer
	h.Way = func(way string, count int) { m.ways.WithLabelValues(way).Add(float64(count)) }
	h.Consumed = func(count int, age time.Duration) {
		m.consumed.Add(float64(count))
		m.age.Observe(age.Seconds())
	}
	h.SetAside = func(ctx context.Context, reason string, err error) {
		m.rejected.WithLabelValues(reason).Inc()
		n.log.WarnContext(ctx, "task or message set aside; see kinesin inbound rejected", slog.String("reason", reason), slog.Any("error", err))
	}
	h.Left = func(why string, count int) { m.left.WithLabelValues(why).Add(float64(count)) }
	h.Trouble = func(ctx context.Context, err error, pause time.Duration) {
		m.trouble.Inc()
		n.log.WarnContext(ctx, "consuming the inbound buffer failed; retrying", slog.Duration("pause", pause), slog.Any("error", err))
	}
	return h
}
