package lambdas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// A lambda is deleted in steps: it is marked, so that it takes no new tasks; all processes hear of that;
// tasks that were acknowledged before are looked for, in the store and in the inbound buffer; its row is
// removed at the version that was seen. Ending them may take longer than a call, so a caller that resumes
// (goes_on) has an answer after deleteCallMax and calls again, at any process. In between the lambda stays
// marked, for catalog.DeletingFor at most.

const (
	// deleteCallMax is how long a call works before it answers that there is more to do: well within the
	// timeouts of clients.
	deleteCallMax = 5 * time.Second
	// deleteReadsMax is how many partitions of a lambda are read at a time.
	deleteReadsMax = 8
	// dropWaitEvery and dropWaitsMax bound the wait for running tasks of a lambda that is deleted. A call
	// that is resumed gives up when it waited dropWaitsMin times in which no task ended.
	dropWaitEvery = 100 * time.Millisecond
	dropWaitsMax  = 100
	dropWaitsMin  = 25
	// backlogWaitEvery is how often the inbound buffer is looked at.
	backlogWaitEvery = 250 * time.Millisecond
	// clockSkewMax is how far the clock of another process may be off that puts tasks into the buffer.
	clockSkewMax = time.Second
)

// errMoreToDo ends a call that has done its share.
var errMoreToDo = errors.New("more is to be done to delete the lambda")

// DeleteLambda deletes a lambda. It refuses while tasks live or may be in the inbound buffer, unless it is
// told to drop them: then waiting tasks end as dropped, also those that come out of the buffer later, and
// running ones are cancelled and waited for a while.
func (svc *Service) DeleteLambda(ctx context.Context, request *kinesinv1.DeleteLambdaRequest) (_ *kinesinv1.DeleteLambdaResponse, err error) {
	defer func() { err = refusal.Wire(err) }()
	entry, err := svc.Catalog.Find(ctx, request.Name)
	if err != nil {
		return nil, err
	}
	d := deletion{Service: svc, entry: entry, drop: request.DropTasks}
	if request.GoesOn {
		d.resumeAfter(callTime(ctx, d.Clock))
	}
	err = d.run(ctx)
	more := errors.Is(err, errMoreToDo)
	if err != nil && !more {
		return nil, err
	}
	return &kinesinv1.DeleteLambdaResponse{Dropped: d.dropped, More: more}, nil
}

// callTime returns for how long a call may work, so that a caller that calls again has its answer in time.
func callTime(ctx context.Context, c clock.Clock) time.Duration {
	within := deleteCallMax
	if deadline, has := ctx.Deadline(); has {
		if left := clock.Until(c, deadline); left > 0 {
			within = min(within, left/2)
		}
	}
	return within
}

// deletion is the part of one call in deleting a lambda. Any number may delete the same one at once; the
// first to get to the end does it for all.
type deletion struct {
	*Service
	entry     *catalog.Entry
	drop      bool
	resumable bool          // the caller calls again
	until     time.Duration // monotonic time when a resumable call answers

	dropped int64 // tasks that ended
	moved   bool  // a task ended or was told to stop
}

// resumeAfter has run end after that time with errMoreToDo, for a caller that calls again.
func (d *deletion) resumeAfter(within time.Duration) {
	d.resumable, d.until = true, clock.Mono(d.Clock)+within
}

func (d *deletion) run(ctx context.Context) error {
	if err := d.checkNotRegistered(ctx, d.entry); err != nil {
		return err
	}
	entry, err := d.removeDeclared(ctx, d.entry)
	if err != nil {
		return err
	}
	d.entry = entry
	if !d.drop && !d.entry.Deleting { // a lambda whose deletion is refused at once is not marked
		if err := d.checkNoBacklog(); err != nil {
			return err
		}
		if err := d.checkEmpty(ctx); err != nil {
			return err
		}
	}
	if err := d.mark(ctx); err != nil { // so that nothing new comes in between
		return err
	}
	err = d.empty(ctx)
	if err == nil {
		err = d.remove(ctx)
	}
	switch {
	case err == nil:
		d.dropQueues(ctx)
		return nil
	case errors.Is(err, errMoreToDo), d.resumable && d.drop && isTransient(ctx, err): // the caller calls again
		return err
	}
	return errors.Join(err, d.unmark(ctx))
}

// dropQueues deletes what is left on the queues of a deleted lambda. A message that stays is refused at its
// claim. Messages on the queue of a deliver lambda belong to its consumer.
func (d *deletion) dropQueues(ctx context.Context) {
	if d.entry.Mode == task.Deliver {
		return
	}
	if err := d.Queue.Drop(ctx, d.entry.Ref); err != nil && d.Hooks.Internal != nil {
		d.Hooks.Internal(ctx, kinesinv1connect.LambdaServiceDeleteLambdaProcedure, err)
	}
}

// isTransient reports whether another try may succeed.
func isTransient(ctx context.Context, err error) bool {
	return ctx.Err() != nil || isRefusal(err, kinesinv1.Reason_REASON_UNAVAILABLE)
}

func isRefusal(err error, reason kinesinv1.Reason) bool {
	return err != nil && refusal.Problem(err).Reason == reason
}

// mark marks the lambda as being deleted, or renews the mark.
func (d *deletion) mark(ctx context.Context) error {
	marked, err := d.Catalog.Mark(ctx, d.entry, d.drop)
	if err == nil {
		d.entry = marked
	}
	return err
}

// unmark cancels a refused deletion, also when the caller is gone.
func (d *deletion) unmark(ctx context.Context) error {
	if err := d.Catalog.Unmark(context.WithoutCancel(ctx), d.entry); !errors.Is(err, catalog.ErrUnknown) {
		return err
	}
	return nil
}

// empty makes sure that a marked lambda has no live task, dropping them if it is told to.
func (d *deletion) empty(ctx context.Context) error {
	select {
	case <-d.Tasks.Settled(): // calls that saw the lambda before
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.Shared { // calls in other processes that saw it before; see Batch.checkStillValid in package intake
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
	return d.checkEmpty(ctx)
}

// remove removes a lambda that is empty and has been marked all the time.
func (d *deletion) remove(ctx context.Context) error {
	if err := d.checkNotRegistered(ctx, d.entry); err != nil { // it may be registered again
		return err
	}
	if err := d.checkMarked(); err != nil {
		return err
	}
	if life := d.Backlog.Life(); d.drop && life > 0 {
		if err := d.Catalog.NoteDropped(ctx, d.entry, life); err != nil {
			return err
		}
	}
	err := d.Catalog.Remove(ctx, d.entry)
	if errors.Is(err, catalog.ErrChanged) && d.Catalog.Refresh(ctx) == nil {
		if cancelled := d.checkMarked(); cancelled != nil {
			return cancelled
		}
	}
	return err
}

// checkMarked fails if the deletion was cancelled: by the retry of another one, by a registration, or by the
// consumer of the inbound buffer that met a task of the lambda. It is fine if another process renewed the
// mark or removed the lambda.
func (d *deletion) checkMarked() error {
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
		"lambda %s: its deletion was cancelled, most likely because a task of it came out of the inbound buffer; wait for its tasks, or delete it with its tasks dropped", d.entry.Name)
}

// proceed is called between two steps: it fails with errMoreToDo when the time of the call is over, and
// renews the mark.
func (d *deletion) proceed(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.resumable && clock.Mono(d.Clock) >= d.until {
		return errMoreToDo
	}
	return d.renew(ctx)
}

// renew renews the mark when it is old enough.
func (d *deletion) renew(ctx context.Context) error {
	if err := d.checkMarked(); err != nil || !d.Catalog.NeedsRenewal(d.entry) {
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
	if left := d.until - clock.Mono(d.Clock); d.resumable && left < wait {
		if err := clock.Sleep(ctx, d.Clock, max(0, left)); err != nil {
			return err
		}
		return errMoreToDo
	}
	return clock.Sleep(ctx, d.Clock, wait)
}

// checkNoBacklog refuses while tasks that were acknowledged a while ago may be in the inbound buffer. Without
// their lambda they would be rejected.
func (d *deletion) checkNoBacklog() error {
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
// buffer. If a task of the lambda comes out, the consumer cancels the deletion.
func (d *deletion) awaitBuffer(ctx context.Context) error {
	since := d.Clock.Now().Add(-d.Catalog.MarkedFor(d.entry))
	if d.Shared {
		since = since.Add(catalog.SettledAfter + clockSkewMax)
	}
	for {
		if err := d.checkNoBacklog(); err != nil {
			return err
		}
		if d.Backlog.Passed(since) {
			return d.renew(ctx)
		}
		if err := d.pause(ctx, backlogWaitEvery); err != nil {
			return err
		}
		if err := d.proceed(ctx); err != nil {
			return err
		}
	}
}

// checkEmpty refuses while a task of the lambda lives.
func (d *deletion) checkEmpty(ctx context.Context) error {
	for some := range slices.Chunk(d.entry.Partitions(), deleteReadsMax) {
		live, err := d.Tasks.AnyLive(ctx, some)
		if err != nil {
			return err
		}
		if live {
			return api.Errorf(kinesinv1.Reason_REASON_IN_USE,
				"lambda %s has live tasks%s; wait for them, or delete it with its tasks dropped", d.entry.Name, d.fromCrons(ctx))
		}
	}
	return nil
}

// cronsNamedMax bounds the crons that a refusal names.
const cronsNamedMax = 5

// fromCrons says which crons a lambda has, whose next occurrences are tasks that live until it has no crons.
func (d *deletion) fromCrons(ctx context.Context) string {
	if d.CronsOf == nil {
		return ""
	}
	names, err := d.CronsOf(ctx, d.entry)
	if err != nil || len(names) == 0 { // the refusal is true without them
		return ""
	}
	more := ""
	if n := len(names); n > cronsNamedMax {
		names, more = names[:cronsNamedMax], fmt.Sprintf(" and %d more", n-cronsNamedMax)
	}
	return fmt.Sprintf(", which its crons %s%s go on scheduling: delete these (kinesin cron delete NAME)", strings.Join(names, ", "), more)
}

// dropTasks ends all live tasks of a lambda, and waits a bounded time for those that run.
func (d *deletion) dropTasks(ctx context.Context) error {
	stillRunning := api.Errorf(kinesinv1.Reason_REASON_IN_USE,
		"lambda %s still has running tasks; they were told to stop, try again when they have", d.entry.Name)
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
		if !d.resumable && waits >= dropWaitsMax {
			return stillRunning
		}
		err := d.pause(ctx, dropWaitEvery)
		if errors.Is(err, errMoreToDo) && !d.moved && waits >= dropWaitsMin {
			return stillRunning
		}
		if err != nil {
			return err
		}
	}
}

// dropIn ends the live tasks of some partitions, and reports whether running ones are left.
func (d *deletion) dropIn(ctx context.Context, some []task.Partition) (running bool, err error) {
	for {
		ended, told, left, err := d.Tasks.DropLive(ctx, d.entry, some)
		if err != nil || len(left) == 0 {
			return false, err
		}
		d.dropped += int64(ended)
		d.moved = d.moved || ended > 0 || told > 0
		if ended == 0 { // all that are left run, and were told to stop
			return true, nil
		}
		if err := d.proceed(ctx); err != nil {
			return false, err
		}
		some = left // the other partitions have no live task, and get none
	}
}
