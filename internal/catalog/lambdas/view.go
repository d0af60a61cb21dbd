package lambdas

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

func lambdaOf(v *kinesinv1.Lambda) (task.Lambda, error) {
	if v == nil {
		return task.Lambda{}, refusal.Invalid("no lambda given")
	}
	mode, err := task.ParseMode(v.Mode)
	if err != nil {
		return task.Lambda{}, err
	}
	if v.Shards > task.ShardsMax {
		return task.Lambda{}, refusal.Invalid("shards %d: want 1 to %d", v.Shards, task.ShardsMax)
	}
	return task.Lambda{
		Name: v.Name, Mode: mode, Priorities: v.Priorities, Shards: uint16(v.Shards), MaxAttempts: v.MaxAttempts,
		Timeout:    task.Micros(v.Timeout),
		BackoffMin: task.Micros(v.BackoffMin),
		BackoffMax: task.Micros(v.BackoffMax),
		Retention:  task.Micros(v.Retention),

		KeyRetention: task.Micros(v.KeyRetention), PoisonBound: v.PoisonBound, StartWithin: task.Micros(v.StartWithin),
		LimitKeyConcurrency: v.LimitKeyConcurrency, LimitKeyRate: v.LimitKeyRate,
		RetryShare: v.RetryShare, Breaker: task.Breaker{Failures: v.GetBreaker().GetFailures(), Window: task.Micros(v.GetBreaker().GetWindow())},
	}, nil
}

// weightsOf returns the weights of priorities in a request; nil, which is strict, if there are none, or only
// a 0 for the priority without a name.
func weightsOf(v *kinesinv1.Lambda, priorities []string) ([]uint16, error) {
	if weight, unset := v.PriorityWeights[""]; unset && weight == 0 && len(v.PriorityWeights) == 1 {
		return nil, nil
	}
	return task.WeightsOf(priorities, v.PriorityWeights)
}

// viewEntry returns a lambda as callers see it.
func viewEntry(e *catalog.Entry, s status) *kinesinv1.Lambda {
	v := &kinesinv1.Lambda{
		Name: e.Name, Mode: e.Mode.String(), Priorities: e.Priorities, Shards: uint32(e.Shards), Retention: e.Retention.Microseconds(),
		Created: int64(e.Created), Version: e.Version, Deleting: e.Deleting, Registered: e.Registration != "",
		KeyRetention: e.KeyRetention.Microseconds(), StartWithin: e.StartWithin.Microseconds(),
		Withdrawn: e.Registration != "" && !s.registered, PriorityWeights: e.NamedWeights(), RetryShare: e.RetryShare,
		LimitKeyConcurrency: e.LimitKeyConcurrency, LimitKeyRate: e.LimitKeyRate,
	}
	if e.Breaker.IsSet() {
		v.Breaker = &kinesinv1.Breaker{Failures: e.Breaker.Failures, Window: e.Breaker.Window.Microseconds()}
	}
	if from := e.ShardsFrom(); from > 0 {
		v.ShardsFrom = int64(from)
	}
	if s.refused != nil {
		v.RegistrationRefused = s.refused.Error()
	}
	if e.Mode == task.Managed {
		v.MaxAttempts, v.Timeout, v.PoisonBound = e.MaxAttempts, e.Timeout.Microseconds(), e.PoisonBound
		v.BackoffMin, v.BackoffMax = e.BackoffMin.Microseconds(), e.BackoffMax.Microseconds()
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
