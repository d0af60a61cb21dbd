package node

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/inbound"
)

// registrationMetrics are those of the registrations of lambdas.
type registrationMetrics struct {
	became *prometheus.CounterVec // outcome
	are    *prometheus.GaugeVec   // outcome
}

func newRegistrationMetrics(r prometheus.Registerer) registrationMetrics {
	m := registrationMetrics{
		became: counters("kinesin_registrations_total", "What became of the registrations of lambdas, when that changed.", "outcome"),
		are: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kinesin_registrations",
			Help: "Registrations of lambdas by what they are now, as this process sees it; unread is 1 while they cannot be read.",
		}, []string{"outcome"}),
	}
	for _, outcome := range inbound.Registrations() {
		m.became.WithLabelValues(outcome)
	}
	m.set(nil)
	r.MustRegister(m.became, m.are)
	return m
}

func (m registrationMetrics) set(states map[string]int) {
	for _, state := range inbound.RegistrationStates() {
		m.are.WithLabelValues(state).Set(float64(states[state]))
	}
}

// register makes lambdas of registrations, where there can be any.
func (n *Node) register(ctx context.Context) error {
	if n.inbound == nil {
		<-ctx.Done()
		return nil
	}
	defer n.metrics.registrations.set(nil) // others look after them from now on
	return n.inbound.Register(ctx)
}

func (n *Node) registered(ctx context.Context, lambda, outcome string, err error) {
	n.metrics.registrations.became.WithLabelValues(outcome).Inc()
	level, text := registrationText(lambda, outcome)
	facts := []slog.Attr{slog.String("lambda", lambda), slog.String("outcome", outcome)}
	if lambda == "" { // it is about all of them
		facts = facts[1:]
	}
	if err != nil {
		facts = append(facts, slog.Any("error", err))
	}
	n.log.LogAttrs(ctx, level, text, facts...)
}

// registrationText is what is logged of what became of a registration; of all of them if lambda is empty.
func registrationText(lambda, outcome string) (slog.Level, string) {
	switch outcome {
	case inbound.RegistrationCreated:
		return slog.LevelInfo, "lambda created as registered"
	case inbound.RegistrationChanged:
		return slog.LevelInfo, "lambda changed as registered"
	case inbound.RegistrationWaiting:
		return slog.LevelInfo, "registration waits"
	case inbound.RegistrationDeleted:
		return slog.LevelInfo, "withdrawn lambda deleted"
	case inbound.RegistrationKept:
		return slog.LevelWarn, "withdrawn lambda kept"
	case inbound.RegistrationUnread:
		return slog.LevelWarn, "registrations cannot be read"
	case inbound.RegistrationWell:
		if lambda == "" {
			return slog.LevelInfo, "registrations can be read again"
		}
		return slog.LevelInfo, "lambda is as registered again"
	}
	return slog.LevelWarn, "registration not taken"
}
