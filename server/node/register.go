package node

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/inbound"
)

func newRegistrationCounter(r prometheus.Registerer) *prometheus.CounterVec {
	c := counters("kinesin_registrations_total", "What became of the registrations of lambdas, when that changed.", "outcome")
	for _, outcome := range inbound.Registrations() {
		c.WithLabelValues(outcome)
	}
	r.MustRegister(c)
	return c
}

// register makes lambdas of registrations, where there can be any.
func (n *Node) register(ctx context.Context) error {
	if n.inbound == nil {
		<-ctx.Done()
		return nil
	}
	return n.inbound.Register(ctx)
}

func (n *Node) registered(ctx context.Context, lambda, outcome string, err error) {
	n.metrics.registrations.WithLabelValues(outcome).Inc()
	name := slog.String("lambda", lambda)
	if outcome == inbound.RegistrationWaiting {
		n.log.InfoContext(ctx, "registration waits", name, slog.Any("error", err))
		return
	}
	if err != nil {
		n.log.WarnContext(ctx, "registration not taken", name, slog.String("outcome", outcome), slog.Any("error", err))
		return
	}
	n.log.InfoContext(ctx, "registration taken", name, slog.String("outcome", outcome))
}
