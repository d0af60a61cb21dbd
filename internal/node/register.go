package node

import (
	"context"
	"log/slog"

	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog/lambdas"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
)

// register applies the registrations of lambdas until ctx ends.
func (n *Node) register(ctx context.Context) error {
	defer n.metrics.setRegistrations(nil) // from then on other processes apply them
	return n.lambdas.Register(ctx)
}

// registered counts and logs a change of a registration; lambda is empty for a change of all of them.
func (n *Node) registered(ctx context.Context, lambda, outcome string, err error) {
	n.metrics.registrations.WithLabelValues(outcome).Inc()
	facts := make([]any, 0, 3)
	if lambda != "" {
		facts = append(facts, slog.String("lambda", lambda))
	}
	facts = append(facts, slog.String("outcome", outcome))
	if err != nil {
		facts = append(facts, slog.Any("error", err))
	}
	n.noteRegistered(ctx, lambda, outcome)
	level, message := registrationLog(outcome, lambda)
	n.log.Log(ctx, level, message, facts...) //nolint:sloglint // one of registrationLog's constants
}

// noteRegistered records a change of a lambda that a registration made.
func (n *Node) noteRegistered(ctx context.Context, lambda, outcome string) {
	action := map[string]string{
		lambdas.RegistrationCreated: "lambda.create", lambdas.RegistrationChanged: "lambda.update", lambdas.RegistrationDeleted: "lambda.delete",
	}[outcome]
	if n.audit == nil || action == "" {
		return
	}
	r := audit.Record{Identity: access.ServerName, From: "registration", Action: action, Target: lambda, Outcome: audit.OK}
	if l, err := n.lambdas.GetLambda(ctx, &kinesinv1.GetLambdaRequest{Name: lambda}); err == nil {
		r.After = string(jsonform.AppendRecord(nil, l.GetLambda())) // as those of calls
	}
	n.audit.Note(ctx, r)
}

// registrationLog returns how a change of a registration is logged.
func registrationLog(outcome, lambda string) (slog.Level, string) {
	switch outcome {
	case lambdas.RegistrationCreated:
		return slog.LevelInfo, "lambda created as registered"
	case lambdas.RegistrationChanged:
		return slog.LevelInfo, "lambda changed as registered"
	case lambdas.RegistrationWaiting:
		return slog.LevelInfo, "registration waits"
	case lambdas.RegistrationDeleted:
		return slog.LevelInfo, "withdrawn lambda deleted"
	case lambdas.RegistrationKept:
		return slog.LevelWarn, "withdrawn lambda kept"
	case lambdas.RegistrationUnread:
		return slog.LevelWarn, "registrations cannot be read"
	case lambdas.RegistrationHeld:
		return slog.LevelWarn, "most registrations are gone at once; keeping their lambdas"
	case lambdas.RegistrationRecovered:
		if lambda == "" {
			return slog.LevelInfo, "registrations can be read again"
		}
		return slog.LevelInfo, "lambda is as registered again"
	}
	return slog.LevelWarn, "registration not taken"
}
