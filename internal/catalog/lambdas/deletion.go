package lambdas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// A lambda is deleted in steps: it is marked, so that it takes no new tasks; everybody hears of that; what
// was acknowledged before is looked for, in the store and in the inbound buffer; its row is removed at the
// version that was seen. All of it may take longer than a call, so a caller that says so (goes_on) has an
// answer after deleteCallMax and calls again, any process. In between the lambda stays marked, for
// catalog.DeletingFor at most.

const (
	// deleteCallMax is how long a call works before it answers that there is more to do: well within the time
	// that clients wait.
	deleteCallMax = 5 * time.Second
	// deleteReadsMax is how many partitions of a lambda are read at a time.
	deleteReadsMax = 8
	// dropWaitEvery and dropWaitsMax bound the wait for running tasks of a lambda that is deleted, and
	// dropWaitsMin how long of a call that goes on they must be all that is left.
	dropWaitEvery = 100 * time.Millisecond
	dropWaitsMax  = 100
	dropWaitsMin  = 25
	// backlogWaitEvery is how often the wait for the inbound buffer looks, and clocksMax how far the clock of
	// another process may be off that puts tasks there.
	backlogWaitEvery = 250 * time.Millisecond
	clocksMax        = time.Second
)

// errMoreToDo ends a call that has done its share.
var errMoreToDo = errors.New("more is to be done to delete the lambda")

// DeleteLambda forgets a lambda. It refuses while tasks live or may be in the inbound buffer, unless it is
// told to drop them: then those that wait end as dropped, also those that come out of the buffer later, and
// running ones are cancelled and waited for a while.
func (svc *Service) DeleteLambda(ctx context.Context, request *kinesinv1.DeleteLambdaRequest) (_ *kinesinv1.DeleteLambdaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	entry, err := svc.Catalog.Find(ctx, request.Name)
	if err != nil {
		return nil, err
	}
	d := deletion{Service: svc, entry: entry, drop: request.DropTasks}
	if request.GoesOn {
		d.goOnWithin(callTime(ctx, d.Clock))
	}
	err = d.run(ctx)
	more := errors.Is(err, errMoreToDo)
	if err != nil && !more {
		return nil, err
	}
	return &kinesinv1.DeleteLambdaResponse{Dropped: d.dropped, More: more}, nil
}

// callTime is for how long a call may work, in time for a caller that calls again.
func callTime(ctx context.Context, c clock.Clock) time.Duration {
	within := deleteCallMax
	if deadline, has := ctx.Deadline(); has {
		if left := clock.Until(c, deadline); left > 0 {
			within = min(within, left/2)
		}
	}
	return within
}

// deletion is one call's part in deleting a lambda, and none that has its name since. Any number may do so at
// once, and the first to come to the end does it for all.
type deletion struct {
	*Service
	entry *catalog.Entry
	drop  bool
	until time.Duration // monotonic time when the call answers; 0: when all is done

	dropped int64 // tasks that ended
	moved   bool  // a task ended or was told to stop
}

// goOnWithin has run end within that time with errMoreToDo, for a caller that goes on later.
func (d *deletion) goOnWithin(within time.Duration) { d.until = clock.Mono(d.Clock) + within }

func (d *deletion) goesOn() bool { return d.until > 0 }

func (d *deletion) run(ctx context.Context) error {
	if err := d.mustNotBeRegistered(ctx, d.entry); err != nil {
		return err
	}
	if !d.drop && !d.entry.Deleting { // what is refused at once is not touched
		if err := d.mustHaveNoBacklog(); err != nil {
			return err
		}
		if err := d.mustBeEmpty(ctx, d.entry); err != nil {
			return err
		}
	}
	if err := d.mark(ctx); err != nil { // so that nothing new comes in between
		return err
	}
	err := d.empty(ctx)
	if err == nil {
		err = d.remove(ctx)
	}
	switch {
	case err == nil:
	case errors.Is(err, errMoreToDo):
		return err
	case d.goesOn() && d.drop && isPassing(ctx, err):
		return err // the caller tries again, and goes on from there
	default:
		return errors.Join(err, d.keep(ctx))
	}
	if d.entry.Mode == task.Deliver { // what is on its queue is its consumer's
		return nil
	}
	if err := d.Queue.Drop(ctx, d.entry.Ref); err != nil && d.Hooks.Internal != nil { // what is left there is refused at its claim
		d.Hooks.Internal(ctx, kinesinv1connect.LambdaServiceDeleteLambdaProcedure, err)
	}
	return nil
}

// isPassing reports whether another try may fare better.
func isPassing(ctx context.Context, err error) bool {
	return ctx.Err() != nil || refusal.Problem(err).Reason == kinesinv1.Reason_REASON_UNAVAILABLE
}

// mark says in the lambda's row that it is being deleted, or has it say so for longer.
func (d *deletion) mark(ctx context.Context) error {
	marked, err := d.Catalog.Mark(ctx, d.entry, d.drop)
	if err == nil {
		d.entry = marked
	}
	return err
}

// keep takes a refused deletion back, also when the caller is gone. There is nothing to take back of a lambda
// that is gone.
func (d *deletion) keep(ctx context.Context) error {
	if err := d.Catalog.Unmark(context.WithoutCancel(ctx), d.entry); !errors.Is(err, catalog.ErrUnknown) {
		return err
	}
	return nil
}

// empty makes sure that a marked lambda has no tasks, dropping them if it is told to.
func (d *deletion) empty(ctx context.Context) error {
	select {
	case <-d.Tasks.Settled(): // calls that saw the lambda before
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.Shared { // calls in other processes that saw it before; see confirm in package inbound
		if err := d.pause(ctx, catalog.SettledAfter-d.Catalog.MarkedFor(d.entry)); err != nil {
			return err
		}
	}
	if d.drop {
		return d.dropTasks(ctx)
	}
	if err := d.awaitBuffer(ctx); err != nil {
		return err
	}
	return d.mustBeEmpty(ctx, d.entry)
}

// remove removes a lambda that is marked and empty, and has been marked all the time.
func (d *deletion) remove(ctx context.Context) error {
	if err := d.mustNotBeRegistered(ctx, d.entry); err != nil { // again meanwhile
		return err
	}
	if err := d.mustBeMarked(); err != nil {
		return err
	}
	if life := d.Backlog.Life(); d.drop && life > 0 {
		if err := d.Catalog.NoteDropped(ctx, d.entry, life); err != nil {
			return err
		}
	}
	err := d.Catalog.Remove(ctx, d.entry)
	if errors.Is(err, catalog.ErrChanged) && d.Catalog.Refresh(ctx) == nil {
		if taken := d.mustBeMarked(); taken != nil {
			return taken
		}
	}
	return err
}

// mustBeMarked fails if somebody took the deletion back: who retries another, a registration, or the consumer
// of the inbound buffer that met a task of the lambda. Who renewed the mark is no trouble, and who removed
// the lambda neither.
func (d *deletion) mustBeMarked() error {
	now := d.Catalog.ByRef(d.entry.Ref)
	switch {
	case now == nil:
		return nil
	case now.IsSameMark(d.entry):
		d.entry = now
		return nil
	case d.drop || d.Backlog.Life() == 0:
		return fmt.Errorf("%w: %s", catalog.ErrChanged, d.entry.Name)
	}
	return api.Errorf(kinesinv1.Reason_REASON_IN_USE,
		"lambda %s: its deletion was taken back, most likely since a task of it came out of the inbound buffer; wait for its tasks, or delete it with them dropped", d.entry.Name)
}

// goOn is asked between two steps: whether this call goes on.
func (d *deletion) goOn(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.goesOn() && clock.Mono(d.Clock) >= d.until {
		return errMoreToDo
	}
	return d.stay(ctx)
}

// stay sees to it that the lambda stays marked.
func (d *deletion) stay(ctx context.Context) error {
	if err := d.mustBeMarked(); err != nil || !d.Catalog.MarkedLongAgo(d.entry) {
		return err
	}
	before := d.entry
	if err := d.mark(ctx); err != nil {
		return err
	}
	if !d.entry.IsSameMark(before) {
		return fmt.Errorf("%w: %s", catalog.ErrChanged, d.entry.Name)
	}
	return nil
}

// pause waits, for no longer than the call may take.
func (d *deletion) pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	if left := d.until - clock.Mono(d.Clock); d.goesOn() && left < wait {
		if err := clock.Sleep(ctx, d.Clock, max(0, left)); err != nil {
			return err
		}
		return errMoreToDo
	}
	return clock.Sleep(ctx, d.Clock, wait)
}

// mustHaveNoBacklog refuses while tasks that were acknowledged a while ago may be in the inbound buffer.
// Without their lambda they would be set aside.
func (d *deletion) mustHaveNoBacklog() error {
	switch unknown, err := d.Backlog.Doubt(); {
	case unknown:
		return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "%v; try again, or delete lambda %s with its tasks dropped", err, d.entry.Name)
	case err != nil:
		return api.Errorf(kinesinv1.Reason_REASON_IN_USE,
			"lambda %s may have tasks in the inbound buffer: %v; wait until that is empty, or delete it with its tasks dropped", d.entry.Name, err)
	}
	return nil
}

// awaitBuffer waits until what was acknowledged before the lambda was marked has come out of the inbound
// buffer. If there is a task of it, the consumer that meets it takes the deletion back.
func (d *deletion) awaitBuffer(ctx context.Context) error {
	since := d.Clock.Now().Add(-d.Catalog.MarkedFor(d.entry))
	if d.Shared {
		since = since.Add(catalog.SettledAfter + clocksMax)
	}
	for {
		if err := d.mustHaveNoBacklog(); err != nil {
			return err
		}
		if d.Backlog.Passed(since) {
			return d.stay(ctx)
		}
		if err := d.pause(ctx, backlogWaitEvery); err != nil {
			return err
		}
		if err := d.goOn(ctx); err != nil {
			return err
		}
	}
}

func (svc *Service) mustBeEmpty(ctx context.Context, entry *catalog.Entry) error {
	for some := range slices.Chunk(entry.Partitions(), deleteReadsMax) {
		live, err := svc.Tasks.AnyLive(ctx, some)
		if err != nil {
			return err
		}
		if live {
			return api.Errorf(kinesinv1.Reason_REASON_IN_USE,
				"lambda %s has live tasks; wait for them, or delete it with its tasks dropped", entry.Name)
		}
	}
	return nil
}

// dropTasks ends all live tasks of a lambda, and waits a bounded time for those that run.
func (d *deletion) dropTasks(ctx context.Context) error {
	for waits := 0; ; waits++ {
		left := false
		for some := range slices.Chunk(d.entry.Partitions(), deleteReadsMax) {
			running, err := d.dropIn(ctx, some)
			if err != nil {
				return err
			}
			left = left || running
		}
		if !left {
			return nil
		}
		if !d.goesOn() && waits >= dropWaitsMax {
			return d.stillRuns()
		}
		err := d.pause(ctx, dropWaitEvery)
		if errors.Is(err, errMoreToDo) && !d.moved && waits >= dropWaitsMin {
			return d.stillRuns()
		}
		if err != nil {
			return err
		}
	}
}

func (d *deletion) stillRuns() error {
	return api.Errorf(kinesinv1.Reason_REASON_IN_USE, "lambda %s still has running tasks; they were told to stop, try again when they have", d.entry.Name)
}

// dropIn ends the live tasks of some partitions, and reports whether any are left, which run.
func (d *deletion) dropIn(ctx context.Context, some []task.Partition) (running bool, err error) {
	for {
		ended, told, left, err := d.Tasks.DropLive(ctx, d.entry, some)
		if err != nil || len(left) == 0 {
			return false, err
		}
		d.dropped += int64(ended)
		d.moved = d.moved || ended > 0 || told > 0
		if ended == 0 { // only running ones are left, and they were told to stop
			return true, nil
		}
		if err := d.goOn(ctx); err != nil {
			return false, err
		}
		some = left // the others have none, and get none
	}
}
