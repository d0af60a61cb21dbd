package inbound

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// dropRowsMax is how many tasks of a partition are dropped in one write.
	dropRowsMax = 500
	// dropWaitEvery and dropWaitsMax bound the wait for running tasks of a lambda that is deleted.
	dropWaitEvery = 100 * time.Millisecond
	dropWaitsMax  = 100
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
	want = want.WithDefaults()
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
	if _, err := in.deleteLambda(context.WithoutCancel(ctx), entry, false); err != nil {
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
	var s standing
	if in.mayBeRegistered(entry) {
		if s, err = in.standingOf(ctx, entry); err != nil {
			return nil, wire(err)
		}
	}
	return &kinesinv1.GetLambdaResponse{Lambda: viewEntry(entry, s)}, nil
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

// UpdateLambda changes what may change: attempts, timeout, backoff and retention. What is zero stays.
func (in *Inbound) UpdateLambda(ctx context.Context, request *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	want, err := lambdaOf(request.Lambda)
	if err != nil {
		return nil, err
	}
	entry, err := in.Catalog.Update(ctx, want.Name, func(l *task.Lambda) error { return change(l, want) })
	if err != nil {
		return nil, wire(err)
	}
	view, err := in.viewLambda(ctx, entry)
	if err != nil {
		return nil, wire(err)
	}
	return &kinesinv1.UpdateLambdaResponse{Lambda: view}, nil
}

func change(l *task.Lambda, want task.Lambda) error {
	if want.Mode != task.Managed && want.Mode != l.Mode {
		return invalid("mode cannot change: a task's row is what its lambda's mode made it")
	}
	if len(want.Priorities) > 0 && !slices.Equal(want.Priorities, l.Priorities) {
		return invalid("priorities cannot change: they are part of every task's key; lambda %s has %v", l.Name, l.Priorities)
	}
	if want.Shards != 0 && want.Shards != l.Shards {
		return invalid("shards cannot change: they are part of every task's key; lambda %s has %d", l.Name, l.Shards)
	}
	if err := checkSettings(l.Mode, want); err != nil {
		return err
	}
	if want.MaxAttempts != 0 {
		l.MaxAttempts = want.MaxAttempts
	}
	if want.Timeout != 0 {
		l.Timeout = want.Timeout
	}
	if want.BackoffMin != 0 {
		l.BackoffMin = want.BackoffMin
	}
	if want.BackoffMax != 0 {
		l.BackoffMax = want.BackoffMax
	}
	if want.Retention != 0 {
		l.Retention = want.Retention
	}
	return nil
}

// DeleteLambda forgets a lambda. It refuses while tasks live, unless it is told to drop them:
// then those that wait end as dropped, and running ones are cancelled and waited for a while.
func (in *Inbound) DeleteLambda(ctx context.Context, request *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
	entry, err := in.Catalog.Find(ctx, request.Name)
	if err != nil {
		return nil, wire(err)
	}
	dropped, err := in.deleteLambda(ctx, entry, request.DropTasks)
	if err != nil {
		return nil, err
	}
	return &kinesinv1.DeleteLambdaResponse{Dropped: dropped}, nil
}

// deleteLambda deletes that lambda, and none that has its name since. Any number may do so at once, and the first to come to the
// end does it for all.
func (in *Inbound) deleteLambda(ctx context.Context, entry *catalog.Entry, dropTasks bool) (dropped int64, err error) {
	if err := in.mustNotBeRegistered(ctx, entry); err != nil {
		return 0, wire(err)
	}
	if !dropTasks {
		if err := in.mustBeEmpty(ctx, entry); err != nil {
			return 0, wire(err)
		}
	}
	if entry, err = in.mark(ctx, entry, true); err != nil { // so that nothing new comes in between
		return 0, wire(err)
	}
	dropped, err = in.empty(ctx, entry, dropTasks)
	if err == nil {
		err = in.mustNotBeRegistered(ctx, entry) // again meanwhile
	}
	if err == nil {
		err = in.Catalog.Remove(ctx, entry)
	}
	if err != nil {
		return 0, errors.Join(wire(err), in.keep(ctx, entry))
	}
	if entry.Mode == task.Deliver { // what is on its queue is its consumer's
		return dropped, nil
	}
	if err := in.Queue.Drop(ctx, entry.Ref); err != nil { // what is left there is refused at its claim
		in.internal(ctx, kinesinv1connect.LambdaServiceDeleteLambdaProcedure, err)
	}
	return dropped, nil
}

// mark says in a lambda's row whether it is being deleted. Where it says so already nothing is written, so that those who have
// begun before are not undone.
func (in *Inbound) mark(ctx context.Context, entry *catalog.Entry, deleting bool) (*catalog.Entry, error) {
	return in.Catalog.Update(ctx, entry.Name, func(l *task.Lambda) error {
		if l.Ref != entry.Ref {
			return fmt.Errorf("%w %q: it was deleted meanwhile, and another was created", catalog.ErrUnknown, l.Name)
		}
		l.Deleting = deleting
		return nil
	})
}

// empty makes sure that a lambda which takes no new tasks has none, dropping them if it is told to.
func (in *Inbound) empty(ctx context.Context, entry *catalog.Entry, dropTasks bool) (dropped int64, err error) {
	select {
	case <-in.intakes.turn(): // calls that saw the lambda before
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	if in.Shared { // calls in other processes that saw it before; see intake.confirm
		if err := clock.Sleep(ctx, in.Clock, catalog.SettledAfter); err != nil {
			return 0, err
		}
	}
	if !dropTasks {
		return 0, in.mustBeEmpty(ctx, entry)
	}
	return in.drop(ctx, entry)
}

// keep takes a refused deletion back, also when the caller is gone. There is nothing to take back of a lambda that is gone.
func (in *Inbound) keep(ctx context.Context, entry *catalog.Entry) error {
	if _, err := in.mark(context.WithoutCancel(ctx), entry, false); !errors.Is(err, catalog.ErrUnknown) {
		return wire(err)
	}
	return nil
}

func (in *Inbound) mustBeEmpty(ctx context.Context, entry *catalog.Entry) error {
	for _, p := range entry.Partitions() {
		live, err := in.liveIn(ctx, p, 1)
		if err != nil {
			return err
		}
		if len(live) > 0 {
			return api.Errorf(kinesinv1.Reason_REASON_IN_USE,
				"lambda %s has live tasks; wait for them, or delete it with its tasks dropped", entry.Name)
		}
	}
	return nil
}

// drop ends all live tasks of a lambda, and waits a bounded time for those that run.
func (in *Inbound) drop(ctx context.Context, entry *catalog.Entry) (dropped int64, err error) {
	for waits := 0; waits < dropWaitsMax; {
		live, err := in.live(ctx, entry, dropRowsMax)
		if err != nil || len(live) == 0 {
			return dropped, err
		}
		ended, err := in.dropAll(ctx, entry, live)
		if err != nil {
			return dropped, err
		}
		dropped += int64(ended)
		if ended == 0 { // only running ones are left, and they were told to stop
			waits++
			if err := clock.Sleep(ctx, in.Clock, dropWaitEvery); err != nil {
				return dropped, err
			}
		}
	}
	return dropped, api.Errorf(kinesinv1.Reason_REASON_IN_USE,
		"lambda %s still has running tasks; they were told to stop, try again when they have", entry.Name)
}

// live returns live tasks of a lambda, up to limit of each section of each partition; none only if there is none.
func (in *Inbound) live(ctx context.Context, entry *catalog.Entry, limit int) ([]found, error) {
	var all []found
	for _, p := range entry.Partitions() {
		some, err := in.liveIn(ctx, p, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// liveIn is live for one partition.
func (in *Inbound) liveIn(ctx context.Context, p task.Partition, limit int) ([]found, error) {
	waiting, err := in.Store.ScanWaiting(ctx, p, store.WaitingKey{}, math.MaxInt64, limit)
	if err != nil {
		return nil, err
	}
	awake, err := in.Store.ScanWakeups(ctx, p, store.WakeKey{}, math.MaxInt64, limit)
	if err != nil {
		return nil, err
	}
	all := make([]found, 0, len(waiting)+len(awake))
	for i := range waiting {
		all = append(all, found{Task: waiting[i], waiting: true})
	}
	for i := range awake {
		all = append(all, found{Task: awake[i]})
	}
	return all, nil
}

// dropAll ends what waits, in one write, and asks what runs to stop. It returns how many ended.
// A task that moved in between is met again in the next round.
func (in *Inbound) dropAll(ctx context.Context, entry *catalog.Entry, live []found) (int, error) {
	now := in.Clock.Now()
	ops := make([]store.Op, 0, len(live))
	tombs := make([]task.Task, 0, len(live))
	for i := range live {
		t := &live[i]
		event := task.Event{Kind: task.Drop}
		if t.State.IsRunning() {
			event.Kind = task.Cancel
		}
		next, _, err := t.Apply(event, now, entry.PolicyFor(&t.Task))
		if err != nil || t.CancelRequested {
			continue
		}
		op := store.Op{Kind: store.ReplaceTask, Task: next}
		switch {
		case t.waiting && entry.Mode == task.Deliver: // no task row would keep it from being sent
			op = store.Op{Kind: store.DeleteWaiting, Task: t.Task}
		case t.waiting:
			op.Kind = store.PutTask
		}
		ops, tombs = append(ops, op), append(tombs, next)
	}
	outcomes, err := in.Store.Apply(ctx, ops)
	if err != nil {
		return 0, err
	}
	return in.dropped(ctx, ops, tombs, outcomes)
}

// dropped follows up on the writes of a round: waiting rows whose task has a task row now go, tasks of deliver lambdas
// whose waiting row went get one, workers are told, and those who wait for an end hear of it.
func (in *Inbound) dropped(ctx context.Context, ops []store.Op, tombs []task.Task, outcomes []error) (ended int, err error) {
	var rest []store.Op
	for i, outcome := range outcomes {
		t := &tombs[i]
		switch {
		case ops[i].Kind == store.PutTask && (outcome == nil || errors.Is(outcome, store.ErrConflict)):
			key := task.Task{ID: t.ID, Partition: t.Partition, Due: t.Due} // whatever its Seq is
			rest = append(rest, store.Op{Kind: store.DeleteWaiting, Lazy: true, Task: key})
		case ops[i].Kind == store.DeleteWaiting && outcome == nil:
			rest = append(rest, store.Op{Kind: store.PutTask, Task: *t})
		}
		switch {
		case outcome != nil:
		case t.State.IsEnd():
			ended++
		default:
			in.Workers.CancelRequested(t)
		}
	}
	if ended > 0 {
		in.Ended()
	}
	_, err = in.Store.Apply(ctx, rest)
	return ended, err
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
	if s.refused != nil {
		v.RegistrationRefused = s.refused.Error()
	}
	if e.Mode == task.Managed {
		v.MaxAttempts, v.TimeoutMicros = e.MaxAttempts, e.Timeout.Microseconds()
		v.BackoffMinMicros, v.BackoffMaxMicros = e.BackoffMin.Microseconds(), e.BackoffMax.Microseconds()
	}
	return v
}
