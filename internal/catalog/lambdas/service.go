package lambdas

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/api"
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
	if err := cmp.Or(checkSettings(want.Mode, want), svc.checkTarget(want.Target, nil)); err != nil {
		return nil, err
	}
	if err := svc.refresh(ctx); err != nil {
		return nil, err
	}
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
	return have.Registration == "" && have.Mode == want.Mode && have.FIFO == want.FIFO && slices.Equal(have.Priorities, want.Priorities)
}

// checkQueueNames deletes a new lambda if another one with a queue of the same name was created at this
// moment, maybe by another process. Both are written before they are checked again, so at least one is
// deleted; it may be both, since the clocks of two machines cannot tell which was first. A lambda that has
// tasks by now stays.
func (svc *Service) checkQueueNames(ctx context.Context, entry *catalog.Entry) error {
	if err := svc.refresh(ctx); err != nil {
		return err
	}
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

// checkTarget refuses a target that servers do not call. One that a lambda had before stays.
func (svc *Service) checkTarget(t, before *task.Target) error {
	if svc.CheckTarget == nil || t == nil || before != nil && before.URL == t.URL {
		return nil
	}
	return svc.CheckTarget(t)
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

// UpdateLambda changes the settings that the mask of the request names. Mode and priorities cannot change, and shards only
// grow.
func (svc *Service) UpdateLambda(ctx context.Context, request *kinesinv1.UpdateLambdaRequest) (_ *kinesinv1.UpdateLambdaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	if request.GetLambda() == nil {
		return nil, errNoLambda
	}
	if err := api.CheckMask(request); err != nil {
		return nil, err
	}
	entry, err := svc.Catalog.Update(ctx, request.GetLambda().GetName(), func(l *task.Lambda) error {
		changed, err := svc.changed(l, request)
		if err == nil {
			*l = changed
		}
		return err
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

// changed returns a lambda after a change: with the settings that it would have if it was created with them.
func (svc *Service) changed(l *task.Lambda, request *kinesinv1.UpdateLambdaRequest) (task.Lambda, error) {
	asked := request.GetLambda()
	if asked.GetMode() != "" && asked.GetMode() != l.Mode.String() {
		return *l, refusal.Invalid("mode cannot change: a task's row is what its lambda's mode made it")
	}
	if asked.GetFifo() && !l.FIFO {
		return *l, refusal.Invalid("fifo cannot change: the queues of lambda %s are standard queues", l.Name)
	}
	if len(asked.GetPriorities()) > 0 && !slices.Equal(asked.GetPriorities(), l.Priorities) {
		return *l, refusal.Invalid("priorities cannot change: they are part of every task's key; lambda %s has %v", l.Name, l.Priorities)
	}
	settings := viewSettings(l)
	api.Change(settings, request)
	if b := settings.Breaker; b != nil && b.Failures == 0 && b.Window == 0 {
		return *l, refusal.Invalid("breaker failures 0: want %v to %v, a share of the attempts", task.BreakerFailuresMin, task.BreakerFailuresMax)
	}
	next, err := lambdaOf(settings)
	if err != nil {
		return *l, err
	}
	if err := keepSecrets(next.Target, l.Target, request.GetFields()); err != nil {
		return *l, err
	}
	if err := cmp.Or(checkSettings(l.Mode, next), svc.checkTarget(next.Target, l.Target)); err != nil {
		return *l, err
	}
	shards := cmp.Or(next.Shards, svc.Catalog.ShardsDefault, task.ShardsDefault)
	next = next.WithDefaults()
	next.Ref, next.Created, next.Deleting, next.LimitKeySet = l.Ref, l.Created, l.Deleting, l.LimitKeySet
	next.Shards, next.ShardHistory = l.Shards, l.ShardHistory
	if err := next.Grow(shards, svc.Catalog.GrownFrom()); err != nil {
		return *l, refusal.Invalid("%v", err)
	}
	return next, nil
}
