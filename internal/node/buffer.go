package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/inbound/ingest"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

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
