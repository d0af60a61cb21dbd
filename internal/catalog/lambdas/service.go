package lambdas

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// CreateLambda creates a lambda. The same again is fine; with other settings it is refused.
func (svc *Service) CreateLambda(ctx context.Context, request *kinesinv1.CreateLambdaRequest) (_ *kinesinv1.CreateLambdaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	want, err := lambdaOf(request.Lambda)
	if err != nil {
		return nil, err
	}
	if want.PriorityWeights, err = weightsOf(request.Lambda, want.WithDefaults().Priorities); err != nil {
		return nil, err
	}
	if err := checkSettings(want.Mode, want); err != nil {
		return nil, err
	}
	if err := svc.refresh(ctx); err != nil {
		return nil, err
	}
	want.KeyRetention, want.StartWithin, want.RetryShare = max(want.KeyRetention, 0), max(want.StartWithin, 0), max(want.RetryShare, 0)
	want.LimitKeyConcurrency, want.LimitKeyRate = max(want.LimitKeyConcurrency, 0), max(want.LimitKeyRate, 0)
	want = svc.Catalog.WithDefaults(want)
	c := access.From(ctx)
	by := catalog.Owner{Name: c.Name, Urgent: c.Grants.AllowAll(access.Admin)}
	if have, err := svc.Catalog.Lambda(want.Name); err != nil || mayProvision(have, want) {
		if err := svc.provision(ctx, want, by, err != nil); err != nil {
			return nil, err
		}
	}
	entry, duplicate, err := svc.Catalog.CreateFor(ctx, want, by)
	if err == nil && !duplicate {
		err = svc.checkQueueNames(ctx, entry)
	}
	if err != nil {
		return nil, err
	}
	view, err := svc.viewLambda(ctx, entry)
	if err != nil {
		return nil, err
	}
	return &kinesinv1.CreateLambdaResponse{Lambda: view, Duplicate: duplicate}, nil
}

// provision creates the queues of a lambda that is to be created.
func (svc *Service) provision(ctx context.Context, l task.Lambda, by catalog.Owner, isNew bool) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if err := svc.Catalog.CheckBounds(l); err != nil {
		return err
	}
	if isNew {
		if err := svc.Catalog.CheckShare(by); err != nil {
			return err
		}
	}
	if err := svc.Queue.CheckLambda(l); err != nil {
		return err
	}
	return svc.Queue.Provision(ctx, l)
}

// mayProvision reports whether missing queues of an existing lambda may be created. Terraform creates those
// of a registered lambda, and a lambda that would need other queues is refused.
func mayProvision(have *catalog.Entry, want task.Lambda) bool {
	return have.Registration == "" && have.Mode == want.Mode && slices.Equal(have.Priorities, want.Priorities)
}

// checkQueueNames deletes a new lambda if another one with a queue of the same name was created at this
// moment, maybe by another process. Both are written before they are checked again, so at least one is
// deleted; it may be both, since the clocks of two machines cannot tell which was first. A lambda that has
// tasks by now stays.
func (svc *Service) checkQueueNames(ctx context.Context, entry *catalog.Entry) error {
	taken := svc.Queue.CheckLambda(entry.Lambda)
	if taken == nil {
		return nil
	}
	taken = fmt.Errorf("%w (it was created at the same time; if it is not there now, create this one again)", taken)
	d := deletion{Service: svc, entry: entry}
	if err := d.run(context.WithoutCancel(ctx)); err != nil {
		return refusal.Invalid("%v; lambda %s was created and could not be deleted again: %v", taken, entry.Name, err)
	}
	return taken
}

// checkSettings refuses settings that have no meaning in a mode.
func checkSettings(mode task.Mode, l task.Lambda) error {
	if err := catalog.CheckSettings(mode, l); err != nil {
		return refusal.Invalid("%v", err)
	}
	return nil
}

// refresh reads the changes that other processes made, where there are any.
func (svc *Service) refresh(ctx context.Context) error {
	if !svc.Shared {
		return nil
	}
	return svc.Catalog.Refresh(ctx)
}

// GetLambda reads one lambda, and its live figures if it is told to.
func (svc *Service) GetLambda(ctx context.Context, request *kinesinv1.GetLambdaRequest) (_ *kinesinv1.GetLambdaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if err := svc.refresh(ctx); err != nil {
		return nil, err
	}
	entry, err := svc.Catalog.Lambda(request.Name)
	if err != nil {
		return nil, err
	}
	view, err := svc.viewLambda(ctx, entry)
	if err != nil {
		return nil, err
	}
	if request.Live && svc.Live != nil {
		if view.Live, err = svc.Live(ctx, entry, request.Count); err != nil {
			return nil, err
		}
	}
	return &kinesinv1.GetLambdaResponse{Lambda: view}, nil
}

// ListLambdas reads all lambdas, by name.
func (svc *Service) ListLambdas(ctx context.Context, _ *kinesinv1.ListLambdasRequest) (_ *kinesinv1.ListLambdasResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if err := svc.refresh(ctx); err != nil {
		return nil, err
	}
	all := svc.Catalog.All()
	var statuses map[string]status
	if slices.ContainsFunc(all, svc.mayBeRegistered) {
		if statuses, err = svc.statuses(ctx); err != nil {
			return nil, err
		}
	}
	response := &kinesinv1.ListLambdasResponse{}
	for _, entry := range all {
		response.Lambdas = append(response.Lambdas, viewEntry(entry, statuses[entry.Name]))
	}
	return response, nil
}

// UpdateLambda changes attempts, timeout, backoff, retention, the bounds of keys, losses and starts, the
// weights of priorities, the brakes, and shards, which only grow. Zero fields stay as they are; a negative
// key retention, start within or retry share is unset, and so are weights of 0 for the priority without a
// name, and a breaker of zeros.
func (svc *Service) UpdateLambda(ctx context.Context, request *kinesinv1.UpdateLambdaRequest) (_ *kinesinv1.UpdateLambdaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	want, err := lambdaOf(request.Lambda)
	if err != nil {
		return nil, err
	}
	entry, err := svc.Catalog.Update(ctx, want.Name, func(l *task.Lambda) (err error) {
		if len(request.Lambda.PriorityWeights) > 0 {
			if want.PriorityWeights, err = weightsOf(request.Lambda, l.Priorities); err != nil {
				return err
			}
			l.PriorityWeights = want.PriorityWeights
		}
		if request.Lambda.Breaker != nil {
			l.Breaker = l.Breaker.Change(want.Breaker)
		}
		return change(l, want, svc.Catalog.GrownFrom())
	})
	if err != nil {
		return nil, err
	}
	view, err := svc.viewLambda(ctx, entry)
	if err != nil {
		return nil, err
	}
	return &kinesinv1.UpdateLambdaResponse{Lambda: view}, nil
}

// change applies the wanted settings to l; grownFrom is when more shards come into force.
func change(l *task.Lambda, want task.Lambda, grownFrom task.Instant) error {
	if want.Mode != task.Managed && want.Mode != l.Mode {
		return refusal.Invalid("mode cannot change: a task's row is what its lambda's mode made it")
	}
	if len(want.Priorities) > 0 && !slices.Equal(want.Priorities, l.Priorities) {
		return refusal.Invalid("priorities cannot change: they are part of every task's key; lambda %s has %v", l.Name, l.Priorities)
	}
	if want.Shards != 0 {
		if err := l.Grow(want.Shards, grownFrom); err != nil {
			return refusal.Invalid("%v", err)
		}
	}
	if err := checkSettings(l.Mode, want); err != nil {
		return err
	}
	l.MaxAttempts = cmp.Or(want.MaxAttempts, l.MaxAttempts)
	l.Timeout = cmp.Or(want.Timeout, l.Timeout)
	l.BackoffMin = cmp.Or(want.BackoffMin, l.BackoffMin)
	l.BackoffMax = cmp.Or(want.BackoffMax, l.BackoffMax)
	l.Retention = cmp.Or(want.Retention, l.Retention)
	l.KeyRetention = max(cmp.Or(want.KeyRetention, l.KeyRetention), 0) // negative: none of its own any more
	l.PoisonBound = cmp.Or(want.PoisonBound, l.PoisonBound)
	l.StartWithin = max(cmp.Or(want.StartWithin, l.StartWithin), 0)
	l.LimitKeyConcurrency = max(cmp.Or(want.LimitKeyConcurrency, l.LimitKeyConcurrency), 0)
	l.LimitKeyRate = max(cmp.Or(want.LimitKeyRate, l.LimitKeyRate), 0)
	l.RetryShare = max(cmp.Or(want.RetryShare, l.RetryShare), 0)
	return nil
}
