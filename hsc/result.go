package hsc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// recordRoundsMax bounds how often a report is decided anew because its row has changed.
const recordRoundsMax = 6

// finishOf returns the report of a result, or the problem with a result that is malformed.
func finishOf(r *kinesinv1.Result) (report, *kinesinv1.Problem) {
	id, ok := idOf(r.GetTask())
	if !ok && r.GetMalformed() == "" {
		return report{}, invalidProblem(fmt.Sprintf("task of %d bytes: want the 16 bytes of a claimed task", len(r.GetTask())))
	}
	a := attempt{id, r.GetAttempt()}
	if r.GetMalformed() != "" {
		return report{attempt: a}, invalidProblem(r.GetMalformed())
	}
	outcome, ok := outcomes[r.GetOutcome()]
	if !ok {
		return report{attempt: a}, invalidProblem(fmt.Sprintf("outcome %q: want success, retriable_failure, fatal_failure, snoozed, released or cancelled", r.GetOutcome()))
	}
	if n := len(r.GetResult()); n > task.ResultBytesMax {
		return report{attempt: a}, invalidProblem(fmt.Sprintf("result of %d bytes: at most %d are kept with a task", n, task.ResultBytesMax))
	}
	delay := min(max(r.GetDelay(), 0), snoozeMax.Microseconds())
	return report{attempt: a, add: r.GetAdd(), event: task.Event{
		Kind: task.Finish, Outcome: outcome, Error: r.GetError(),
		Started: task.Instant(max(r.GetStarted(), 0)), Delay: task.Micros(delay), Result: r.GetResult(),
	}}, nil
}

func startOf(s *kinesinv1.Started) (report, bool) {
	id, ok := idOf(s.GetTask())
	return report{attempt: attempt{id, s.GetAttempt()}, event: task.Event{
		Kind: task.Start, Started: task.Instant(max(s.GetStarted(), 0)),
	}}, ok
}

// record writes reports into their rows, each under the condition that the attempt still owns its task, sends the messages
// of tasks that are enqueued again, and leaves in every report what became of it. A report that was recorded before
// succeeds. While the store fails, record does not wait: it answers reports with "unavailable".
func (s *Service) record(ctx context.Context, sess *session, reports []report) {
	s.recordBatch(ctx, sess, &reportBatch{reports: reports})
}

// recordBatch records the reports of a batch.
func (s *Service) recordBatch(ctx context.Context, sess *session, b *reportBatch) {
	reports := b.reports
	for i := range reports {
		reports[i].event.Worker, reports[i].event.Attempt, reports[i].event.By = sess.worker, reports[i].number, s.Process
	}
	for range recordRoundsMax {
		if err := s.readRows(ctx, reports); err != nil {
			s.failOpen(ctx, reports, err)
			break
		}
		s.extendChains(ctx, reports)
		if b.ops = s.decideReports(sess.worker, reports, !b.awaited, b.ops[:0]); len(b.ops) == 0 {
			break
		}
		results, err := s.Store.Apply(ctx, b.ops)
		noteResults(reports, results)
		if err != nil {
			s.failOpen(ctx, reports, err)
			b.ops = nil // they may still be in use
			break
		}
	}
	s.failOpen(ctx, reports, errBusy)
	s.forgetReplaced(ctx, reports)
	s.notifyScheduler(b)
	s.sendEnqueued(ctx, reports)
	s.conclude(sess, reports)
}

// readRows reads the rows that are not known yet.
func (s *Service) readRows(ctx context.Context, reports []report) error {
	var ids []task.ID
	var of []int
	for i := range reports {
		if r := &reports[i]; !r.done && r.row == nil {
			ids, of = append(ids, r.id), append(of, i)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := s.taskRows(ctx, ids)
	if err != nil {
		return err
	}
	for n, i := range of {
		reports[i].row = &rows[n]
	}
	return nil
}

// decideReports computes the changed rows of all open reports and their writes, in their order.
func (s *Service) decideReports(worker string, reports []report, patient bool, ops []store.Op) []store.Op {
	now := s.Clock.Now()
	for i := range reports {
		r := &reports[i]
		if r.done {
			continue
		}
		var policy task.Policy
		policy, r.entry = s.policy(r.row)
		if r.event.Outcome == task.OutcomeRetriable {
			r.event.Jitter = s.Clock.Uint64()
		}
		event := r.event
		event.Started = boundStart(event.Started, r.row, now)
		from := *r.row
		if r.chain != nil {
			from.Chain = r.chain // before its end, which is kept as that of a chain
		}
		next, effect, err := from.Apply(event, now, policy)
		if err != nil {
			r.refuse(worker, err)
			continue
		}
		if r.chain != nil && next.State != task.Success {
			next.Chain = r.row.Chain
		}
		r.next, r.effect, r.at = next, effect, len(ops)
		move := s.movesWakeup(&r.next)
		if move {
			r.next.Seq = store.SeqAfter(r.row.Seq, now)
		}
		ops = store.AppendChange(ops, &r.next, move, patient && !s.isAwaited(r.row))
		if r.moved = ops[r.at].Kind == store.PutWakeup; r.moved {
			r.at++
			r.next = ops[r.at].Task // which names the new wake-up row
		}
		ops[r.at].From = r.row.Seq
	}
	return ops
}

// movesWakeup reports whether the wake-up row of a changed task moves to where the task wakes. It does for a
// delayed task, unless this process fires it from memory. The rows of other tasks stay, because the scheduler
// that dispatched them has a timer.
func (s *Service) movesWakeup(t *task.Task) bool {
	return t.State.IsWaiting() && (s.Scheduler == nil || !s.Scheduler.FiresWithin(t.Partition, t.Wake))
}

// boundStart bounds the start that a worker's clock showed: not before the claim, and not after now, or the
// claim and the due time if those are later.
func boundStart(started task.Instant, t *task.Task, now task.Instant) task.Instant {
	if started.IsZero() {
		return 0
	}
	return min(max(started, t.ClaimedAt), max(now, t.ClaimedAt, t.Due)) // the clock may be set back since the claim
}

// refuse ends a report that the state machine refuses. If it was recorded before, the worker had only not
// heard of it.
func (r *report) refuse(worker string, err error) {
	r.done, r.effect = true, task.None // an earlier row may have asked for one
	switch {
	case r.event.Kind == task.Start:
	case r.row.ID.IsZero():
		r.problem = fencedProblem("there is no such task any more")
	case isRecorded(r.row, worker, r.number, r.event.Outcome):
		r.next = *r.row
		if r.row.State == task.Enqueued && r.row.Attempt == r.number { // its message may not have been sent
			r.effect = task.Send
		}
	default:
		r.problem = fencedProblem(err.Error())
	}
}

// isRecorded reports whether a row says that the attempt of a number ended on the worker with outcome o.
func isRecorded(t *task.Task, worker string, number uint32, o task.Outcome) bool {
	for i := len(t.History) - 1; i >= 0; i-- {
		if a := &t.History[i]; a.Number == number {
			return a.Worker == worker && a.Outcome == o
		}
	}
	return false
}

// noteResults notes what became of the task rows of the open reports. A row whose write was skipped, because
// the put of its new wake-up row failed, is read again.
func noteResults(reports []report, results []error) {
	for i := range reports {
		r := &reports[i]
		if r.done {
			continue
		}
		result := results[r.at]
		if result == nil {
			r.done, r.stored = true, true
			continue
		}
		if r.row, _ = isConflict(result); r.row == nil && errors.Is(result, store.ErrConflict) {
			r.row = &task.Task{} // it is gone
		}
	}
}

// failOpen answers reports that are still open with "unavailable": the worker sends them again.
func (s *Service) failOpen(ctx context.Context, reports []report, err error) {
	open := 0
	for i := range reports {
		if r := &reports[i]; !r.done {
			r.done, r.problem = true, unavailableProblem()
			open++
		}
	}
	if open > 0 {
		_ = s.unavailable(ctx, "store results", err) // the acks say it to the worker
	}
}

// notifyScheduler tells the scheduler which wake-up rows the reports made needless, and then which wake-ups
// they set. It repeats the wake-up of a report that was stored before, because the outcome of that write may
// have been unknown.
func (s *Service) notifyScheduler(b *reportBatch) {
	if s.Scheduler == nil {
		return
	}
	for i := range b.reports {
		switch r := &b.reports[i]; {
		case !r.stored:
		case r.moved:
			b.needless = append(b.needless, *r.row)
		case r.next.State.IsEnd():
			b.needless = append(b.needless, r.next)
		}
	}
	if len(b.needless) > 0 {
		s.Scheduler.Done(b.needless)
		clear(b.needless)
		b.needless = b.needless[:0]
	}
	for i := range b.reports {
		if r := &b.reports[i]; r.problem == nil && r.next.State.IsWaiting() {
			s.Scheduler.Awake(&r.next)
		}
	}
}

// sendEnqueued sends the messages of tasks that the reports enqueued again.
func (s *Service) sendEnqueued(ctx context.Context, reports []report) {
	var messages []queue.Message
	for i := range reports {
		r := &reports[i]
		if r.effect == task.Send && r.problem == nil {
			messages = append(messages, queue.Message{Task: r.next})
		}
	}
	s.sendMessages(ctx, messages)
}

// conclude brings the session up to date, and calls the hooks.
func (s *Service) conclude(sess *session, reports []report) {
	sess.mu.Lock()
	for i := range reports {
		r := &reports[i]
		if r.event.Kind == task.Finish {
			delete(sess.polled, r.id)
		}
		a := sess.find(r.attempt)
		if a == nil || r.isUnavailable() {
			continue
		}
		switch {
		case r.event.Kind == task.Finish:
			a.settle()
			delete(sess.assigned, r.id)
		case r.stored:
			row := r.next
			a.row = &row
		}
	}
	suspect := sess.suspect.id
	sess.mu.Unlock()
	var ended []task.ID
	for i := range reports {
		r := &reports[i]
		if r.stored && r.next.State.IsEnd() {
			ended = append(ended, r.id)
		}
		if r.id == suspect && r.event.Kind == task.Finish && !r.isUnavailable() && !r.stillOwned(sess.worker) {
			s.suspectDone(sess, r.id)
		}
		s.callHooks(r)
	}
	if len(ended) > 0 && s.Ended != nil {
		s.Ended(ended)
	}
}

// stillOwned reports whether the worker has the task after the report, with a newer attempt.
func (r *report) stillOwned(worker string) bool {
	now := r.row
	if r.stored {
		now = &r.next
	}
	return now.State.IsRunning() && now.Worker == worker
}

func (r *report) isUnavailable() bool {
	return r.problem != nil && r.problem.Reason == kinesinv1.Reason_REASON_UNAVAILABLE
}

func (s *Service) callHooks(r *report) {
	if !r.stored {
		return
	}
	if r.row.FirstStarted.IsZero() && !r.next.FirstStarted.IsZero() {
		s.Hooks.Started(r.entry, &r.next, r.next.FirstStarted.Sub(r.next.Due))
	}
	if r.event.Kind == task.Finish && len(r.next.History) > 0 {
		s.Hooks.Finished(r.entry, &r.next, r.event.Outcome)
	}
	if r.event.Kind == task.WorkerLost {
		s.Hooks.Lost(&r.next)
	}
}

// endAttempts records an event for the attempt of each row. If a report cannot be written now, the wake-up of the task ends
// the attempt later.
func (s *Service) endAttempts(ctx context.Context, sess *session, rows []task.Task, event func(row *task.Task) task.Event) {
	if len(rows) == 0 {
		return
	}
	reports := make([]report, len(rows))
	for i := range rows {
		reports[i] = report{attempt: attemptOf(&rows[i]), row: &rows[i], event: event(&rows[i])}
	}
	s.record(context.WithoutCancel(ctx), sess, reports)
}

// release returns attempts that never reached their worker to the queue; nobody is charged.
func (s *Service) release(ctx context.Context, sess *session, rows []task.Task) {
	s.endAttempts(ctx, sess, rows, func(*task.Task) task.Event {
		return task.Event{Kind: task.Finish, Outcome: task.OutcomeReleased, Error: "the task did not reach its worker"}
	})
}

// failUnrun ends an attempt that cannot run.
func (s *Service) failUnrun(ctx context.Context, sess *session, row *task.Task, why string) {
	s.Log.ErrorContext(ctx, "a task cannot run", slog.String("task_id", row.ID.String()), slog.String("reason", why))
	s.endAttempts(ctx, sess, []task.Task{*row}, func(*task.Task) task.Event {
		return task.Event{Kind: task.Finish, Outcome: task.OutcomeFatal, Error: why}
	})
}
