package inbound

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// CreateLambda registers a lambda; the same again is fine, with other settings it is refused.
func (in *Inbound) CreateLambda(ctx context.Context, request *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	want, err := lambdaOf(request.Lambda)
	if err != nil {
		return nil, err
	}
	if err := checkSettings(want.Mode, want); err != nil {
		return nil, err
	}
	if err := in.catchUp(ctx); err != nil {
		return nil, wire(err)
	}
	want = in.Catalog.WithDefaults(want)
	if have, err := in.Catalog.Lambda(want.Name); err != nil || mayProvision(have, want) {
		if err := in.provision(ctx, want); err != nil {
			return nil, err
		}
	}
	entry, existed, err := in.Catalog.Create(ctx, want)
	if err == nil && !existed {
		err = in.keepApart(ctx, entry)
	}
	if err != nil {
		return nil, wire(err)
	}
	view, err := in.viewLambda(ctx, entry)
	if err != nil {
		return nil, wire(err)
	}
	return &kinesinv1.CreateLambdaResponse{Lambda: view, Existed: existed}, nil
}

// provision sees to it that the lambda's queues are there before the lambda is.
func (in *Inbound) provision(ctx context.Context, l task.Lambda) error {
	if err := l.Validate(); err != nil {
		return wire(err)
	}
	if err := in.Queue.CheckLambda(l); err != nil {
		return wire(err)
	}
	return wire(in.Queue.Provision(ctx, l))
}

// mayProvision reports whether queues of a lambda that is there are to be made if they are gone. Those of one that is registered are
// Terraform's to make, and what has other queues is refused for that.
func mayProvision(have *catalog.Entry, want task.Lambda) bool {
	return have.Registration == "" && have.Mode == want.Mode && slices.Equal(have.Priorities, want.Priorities)
}

// keepApart takes a new lambda back if another one with a queue of the same name was created at this moment, maybe by another
// process: neither was there when the other was checked. Both are written before they are checked again, so that one at least is
// taken back; it may be both, since clocks of two machines cannot tell which was first. It is deleted as any lambda is, and
// so stays if it has tasks by now.
func (in *Inbound) keepApart(ctx context.Context, entry *catalog.Entry) error {
	refusal := in.Queue.CheckLambda(entry.Lambda)
	if refusal == nil {
		return nil
	}
	refusal = fmt.Errorf("%w (it was created at this moment; if it is not there now, create this one again)", refusal)
	if err := in.deleteLambda(context.WithoutCancel(ctx), entry, false); err != nil {
		return invalid("%v; lambda %s was created, and is to be deleted, which failed: %v", refusal, entry.Name, err)
	}
	return refusal
}

// checkSettings refuses settings that say nothing in a mode.
func checkSettings(mode task.Mode, l task.Lambda) error {
	if err := catalog.CheckSettings(mode, l); err != nil {
		return invalid("%v", err)
	}
	return nil
}

// catchUp makes changes known that were made in other processes, where there are any.
func (in *Inbound) catchUp(ctx context.Context) error {
	if !in.Shared {
		return nil
	}
	return in.Catalog.Refresh(ctx)
}

// GetLambda reads one lambda.
func (in *Inbound) GetLambda(ctx context.Context, request *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	err := in.catchUp(ctx)
	if err != nil {
		return nil, wire(err)
	}
	entry, err := in.Catalog.Lambda(request.Name)
	if err != nil {
		return nil, wire(err)
	}
	view, err := in.viewLambda(ctx, entry)
	if err != nil {
		return nil, wire(err)
	}
	return &kinesinv1.GetLambdaResponse{Lambda: view}, nil
}

// ListLambdas reads all lambdas, by name.
func (in *Inbound) ListLambdas(ctx context.Context, _ *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	if err := in.catchUp(ctx); err != nil {
		return nil, wire(err)
	}
	all := in.Catalog.All()
	var standings map[string]standing
	if slices.ContainsFunc(all, in.mayBeRegistered) {
		var err error
		if standings, err = in.standings(ctx, all); err != nil {
			return nil, wire(err)
		}
	}
	response := &kinesinv1.ListLambdasResponse{}
	for _, entry := range all {
		response.Lambdas = append(response.Lambdas, viewEntry(entry, standings[entry.Name]))
	}
	return response, nil
}

// UpdateLambda changes what may change: attempts, timeout, backoff and retention, and shards, which only grow. What is zero stays.
func (in *Inbound) UpdateLambda(ctx context.Context, request *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	want, err := lambdaOf(request.Lambda)
	if err != nil {
		return nil, err
	}
	entry, err := in.Catalog.Update(ctx, want.Name, func(l *task.Lambda) error { return change(l, want, in.Catalog.GrownFrom()) })
	if err != nil {
		return nil, wire(err)
	}
	view, err := in.viewLambda(ctx, entry)
	if err != nil {
		return nil, wire(err)
	}
	return &kinesinv1.UpdateLambdaResponse{Lambda: view}, nil
}

// change makes l what is wanted; grownFrom is when more shards come into force.
func change(l *task.Lambda, want task.Lambda, grownFrom task.Instant) error {
	if want.Mode != task.Managed && want.Mode != l.Mode {
		return invalid("mode cannot change: a task's row is what its lambda's mode made it")
	}
	if len(want.Priorities) > 0 && !slices.Equal(want.Priorities, l.Priorities) {
		return invalid("priorities cannot change: they are part of every task's key; lambda %s has %v", l.Name, l.Priorities)
	}
	if want.Shards != 0 {
		if err := l.Grow(want.Shards, grownFrom); err != nil {
			return invalid("%v", err)
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
	return nil
}

func lambdaOf(v *kinesinv1.Lambda) (task.Lambda, error) {
	if v == nil {
		return task.Lambda{}, invalid("no lambda given")
	}
	mode, err := task.ParseMode(v.Mode)
	if err != nil {
		return task.Lambda{}, err
	}
	if v.Shards > task.ShardsMax {
		return task.Lambda{}, invalid("shards %d: want 1 to %d", v.Shards, task.ShardsMax)
	}
	return task.Lambda{
		Name: v.Name, Mode: mode, Priorities: v.Priorities, Shards: uint16(v.Shards), MaxAttempts: v.MaxAttempts,
		Timeout:    micros(v.TimeoutMicros),
		BackoffMin: micros(v.BackoffMinMicros),
		BackoffMax: micros(v.BackoffMaxMicros),
		Retention:  micros(v.RetentionMicros),
	}, nil
}

// viewEntry is a lambda as callers see it; s is how the registration of its name stands to it.
func viewEntry(e *catalog.Entry, s standing) *kinesinv1.Lambda {
	v := &kinesinv1.Lambda{
		Name: e.Name, Mode: e.Mode.String(), Priorities: e.Priorities, Shards: uint32(e.Shards), RetentionMicros: e.Retention.Microseconds(),
		CreatedMicros: int64(e.Created), Version: e.Version, Deleting: e.Deleting, Registered: e.Registration != "",
		Withdrawn: e.Registration != "" && !s.isThere,
	}
	if from := e.ShardsFrom(); from > 0 {
		v.ShardsFromMicros = int64(from)
	}
	if s.refused != nil {
		v.RegistrationRefused = s.refused.Error()
	}
	if e.Mode == task.Managed {
		v.MaxAttempts, v.TimeoutMicros = e.MaxAttempts, e.Timeout.Microseconds()
		v.BackoffMinMicros, v.BackoffMaxMicros = e.BackoffMin.Microseconds(), e.BackoffMax.Microseconds()
	}
	return v
}
