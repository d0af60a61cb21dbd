package lambdas

import (
	"context"

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
