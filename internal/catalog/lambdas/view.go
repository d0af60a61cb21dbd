package lambdas

import (
	"context"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

var errNoLambda = refusal.Invalid("no lambda given")

// lambdaOf returns a lambda as a caller describes it.
func lambdaOf(v *kinesinv1.Lambda) (task.Lambda, error) {
	if v == nil {
		return task.Lambda{}, errNoLambda
	}
	mode, err := task.ParseMode(v.Mode)
	if err != nil {
		return task.Lambda{}, err
	}
	if v.Shards > task.ShardsMax {
		return task.Lambda{}, refusal.Invalid("shards %d: want 1 to %d", v.Shards, task.ShardsMax)
	}
	l := task.Lambda{
		Name: v.Name, Mode: mode, FIFO: v.Fifo, Priorities: v.Priorities, Shards: uint16(v.Shards), MaxAttempts: v.MaxAttempts,
		Timeout:    task.Micros(v.Timeout),
		BackoffMin: task.Micros(v.BackoffMin),
		BackoffMax: task.Micros(v.BackoffMax),
		Retention:  task.Micros(v.Retention),

		KeyRetention: task.Micros(v.KeyRetention), PoisonBound: v.PoisonBound, StartWithin: task.Micros(v.StartWithin),
		LimitKeyConcurrency: v.LimitKeyConcurrency, LimitKeyRate: v.LimitKeyRate,
		RetryShare: v.RetryShare, Breaker: task.Breaker{Failures: v.GetBreaker().GetFailures(), Window: task.Micros(v.GetBreaker().GetWindow())},
	}
	if l.Target, err = targetOf(v); err != nil {
		return l, err
	}
	l.PriorityWeights, err = task.WeightsOf(l.WithDefaults().Priorities, v.PriorityWeights)
	return l, err
}

// viewSettings returns the settings of a lambda as callers see them.
func viewSettings(l *task.Lambda) *kinesinv1.Lambda {
	v := &kinesinv1.Lambda{
		Name: l.Name, Mode: l.Mode.String(), Fifo: l.FIFO, Priorities: l.Priorities, Shards: uint32(l.Shards), Retention: l.Retention.Microseconds(),
		KeyRetention: l.KeyRetention.Microseconds(), StartWithin: l.StartWithin.Microseconds(),
		PriorityWeights: l.NamedWeights(), RetryShare: l.RetryShare,
		LimitKeyConcurrency: l.LimitKeyConcurrency, LimitKeyRate: l.LimitKeyRate,
	}
	if l.Breaker.IsSet() {
		v.Breaker = &kinesinv1.Breaker{Failures: l.Breaker.Failures, Window: l.Breaker.Window.Microseconds()}
	}
	if l.Mode == task.Managed {
		v.MaxAttempts, v.Timeout, v.PoisonBound = l.MaxAttempts, l.Timeout.Microseconds(), l.PoisonBound
		v.BackoffMin, v.BackoffMax = l.BackoffMin.Microseconds(), l.BackoffMax.Microseconds()
	}
	showTarget(v, l.Target)
	return v
}

// viewEntry returns a lambda as callers see it.
func viewEntry(e *catalog.Entry, s status) *kinesinv1.Lambda {
	v := viewSettings(&e.Lambda)
	v.Created, v.Version, v.Deleting = int64(e.Created), e.Version, e.Deleting
	v.Registered, v.Withdrawn = e.Registration != "", e.Registration != "" && !s.registered
	if from := e.ShardsFrom(); from > 0 {
		v.ShardsFrom = int64(from)
	}
	if s.refused != nil {
		v.RegistrationRefused = s.refused.Error()
	}
	return v
}

// viewLambda returns a lambda as callers see it, after a look at the registration of its name.
func (svc *Service) viewLambda(ctx context.Context, e *catalog.Entry) (v *kinesinv1.Lambda, err error) {
	var s status
	if svc.mayBeRegistered(e) {
		s, err = svc.statusOf(ctx, e)
	}
	return viewEntry(e, s), err
}

// targetOf returns the target of a lambda as a caller describes it; nil if it has none.
func targetOf(v *kinesinv1.Lambda) (*task.Target, error) {
	wire := v.GetTarget()
	if wire == nil {
		if len(v.GetTargetHeaders()) > 0 || len(v.GetTargetSecrets()) > 0 {
			return nil, refusal.Invalid("target headers or secrets without a target: want its url too")
		}
		return nil, nil //nolint:nilnil // it has none
	}
	if wire.GetSlots() > task.TargetSlotsMax {
		return nil, refusal.Invalid("target slots %d: want 1 to %d", wire.GetSlots(), task.TargetSlotsMax)
	}
	t := &task.Target{URL: wire.GetUrl(), Method: wire.GetMethod(), Slots: uint16(wire.GetSlots()), Async: wire.GetAsync()}
	for i, header := range v.GetTargetHeaders() {
		name, value, is := strings.Cut(header, ":")
		if !is {
			return nil, refusal.Invalid("target header %d: want \"name: value\"", i+1) // it may be a secret
		}
		if _, twice := t.Headers[name]; twice {
			return nil, refusal.Invalid("target header %.128q is there twice", name)
		}
		if t.Headers == nil {
			t.Headers = map[string]string{}
		}
		t.Headers[name] = strings.TrimSpace(value)
	}
	for _, text := range v.GetTargetSecrets() {
		secret, err := task.ParseTargetSecret(text)
		if err != nil {
			return nil, err
		}
		t.Secrets = append(t.Secrets, secret)
	}
	return t, nil
}

// showTarget adds the target of a lambda to what callers see of it.
func showTarget(v *kinesinv1.Lambda, t *task.Target) {
	if t == nil {
		return
	}
	v.Target = &kinesinv1.Target{Url: t.URL, Method: t.Method, Slots: uint32(t.Slots), Async: t.Async}
	v.TargetHeaderNames, v.TargetSecretCount = t.HeaderNames(), uint32(len(t.Secrets))
}

// keepSecrets gives a changed target the headers and secrets of before that the change does not name. They were given
// for one host: somebody who may not know them could otherwise send them to a host of his own.
func keepSecrets(next, before *task.Target, fields []string) error {
	if next == nil || before == nil {
		return nil
	}
	keepsHeaders := !slices.Contains(fields, "target_headers") && len(before.Headers) > 0
	keepsSecrets := !slices.Contains(fields, "target_secrets") && len(before.Secrets) > 0
	if (keepsHeaders || keepsSecrets) && !next.KeepsTo(before) {
		return refusal.Invalid("target: its headers and secrets are for another host: give them again, or reset target_headers and target_secrets")
	}
	if keepsHeaders {
		next.Headers = before.Headers
	}
	if keepsSecrets {
		next.Secrets = before.Secrets
	}
	return nil
}
