package node

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
)

// registrationMetrics are those of the registrations of lambdas.
type registrationMetrics struct {
	became *prometheus.CounterVec // outcome
	are    *prometheus.GaugeVec   // outcome
}

func newRegistrationMetrics(f promauto.Factory) registrationMetrics {
	m := registrationMetrics{
		became: counters(f, "kinesin_registrations_total", "What became of the registrations of lambdas, when that changed.", "outcome"),
		are: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kinesin_registrations",
			Help: "Registrations of lambdas by what they are now, as this process sees it; refused are those, too, that it cannot read one by one; unread is 1 while it can read none.",
		}, []string{"outcome"}),
	}
	for _, outcome := range lambdas.Registrations() {
		m.became.WithLabelValues(outcome)
	}
	m.set(nil)
	return m
}

func (m registrationMetrics) set(states map[string]int) {
	for _, state := range lambdas.RegistrationStates() {
		m.are.WithLabelValues(state).Set(float64(states[state]))
	}
}

// register makes lambdas of registrations, where there can be any.
func (n *Node) register(ctx context.Context) error {
	if n.lambdas == nil {
		<-ctx.Done()
		return nil
	}
	defer n.metrics.registrations.set(nil) // others look after them from now on
	return n.lambdas.Register(ctx)
}

func (n *Node) registered(ctx context.Context, lambda, outcome string, err error) {
	n.metrics.registrations.became.WithLabelValues(outcome).Inc()
	facts := make([]any, 0, 3)
	if lambda != "" { // else it is about all of them
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
		log.WarnContext(ctx, "withdrawn lambdas are held: most registrations are gone at once")
	case lambdas.RegistrationRecovered:
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
