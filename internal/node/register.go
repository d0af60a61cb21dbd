package node

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
)

// registrationMetrics are the series of the registrations of lambdas.
type registrationMetrics struct {
	changes *prometheus.CounterVec // outcome
	states  *prometheus.GaugeVec   // outcome
}

func newRegistrationMetrics(f promauto.Factory) registrationMetrics {
	m := registrationMetrics{
		changes: counters(f, "kinesin_registrations_total", "Changes of the state of a registration.", "outcome"),
		states: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kinesin_registrations",
			Help: "Registrations of lambdas by their state in this process; refused includes those that cannot be read; unread is 1 while none can be read.",
		}, []string{"outcome"}),
	}
	for _, outcome := range lambdas.Registrations() {
		m.changes.WithLabelValues(outcome)
	}
	m.set(nil)
	return m
}

func (m registrationMetrics) set(states map[string]int) {
	for _, state := range lambdas.RegistrationStates() {
		m.states.WithLabelValues(state).Set(float64(states[state]))
	}
}

// register applies the registrations of lambdas until ctx ends.
func (n *Node) register(ctx context.Context) error {
	defer n.metrics.registrations.set(nil) // from then on other processes apply them
	return n.lambdas.Register(ctx)
}

// registered counts and logs a change of a registration; lambda is empty for a change of all of them.
func (n *Node) registered(ctx context.Context, lambda, outcome string, err error) {
	n.metrics.registrations.changes.WithLabelValues(outcome).Inc()
	facts := make([]any, 0, 3)
	if lambda != "" {
		facts = append(facts, slog.String("lambda", lambda))
	}
	facts = append(facts, slog.String("outcome", outcome))
	if err != nil {
		facts = append(facts, slog.Any("error", err))
	}
	log := n.log.With(facts...)
	switch outcome {
	case lambdas.RegistrationCreated:
		log.InfoContext(ctx, "lambda created as registered")
	case lambdas.RegistrationChanged:
		log.InfoContext(ctx, "lambda changed as registered")
	case lambdas.RegistrationWaiting:
		log.InfoContext(ctx, "registration waits")
	case lambdas.RegistrationDeleted:
		log.InfoContext(ctx, "withdrawn lambda deleted")
	case lambdas.RegistrationKept:
		log.WarnContext(ctx, "withdrawn lambda kept")
	case lambdas.RegistrationUnread:
		log.WarnContext(ctx, "registrations cannot be read")
	case lambdas.RegistrationHeld:
		log.WarnContext(ctx, "most registrations are gone at once; keeping their lambdas")
	case lambdas.RegistrationWell:
		logWell(ctx, log, lambda)
	default:
		log.WarnContext(ctx, "registration not taken")
	}
}

func logWell(ctx context.Context, log *slog.Logger, lambda string) {
	if lambda == "" {
		log.InfoContext(ctx, "registrations can be read again")
		return
	}
	log.InfoContext(ctx, "lambda is as registered again")
}
