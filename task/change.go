package task

import "fmt"

// This file has the events by which users change a task that is there.

// reschedule makes a task wait for another due time. A message of it is stale from then on.
func (t Task) reschedule(e Event) (Task, Effect, error) {
	if !t.isChangeable() {
		return t, None, fmt.Errorf("%w: reschedule while %s", ErrNoEdge, t.State)
	}
	return t.waitFor(e.Due), None, nil
}

// update makes no difference to when a waiting task starts. One that is enqueued is enqueued again, because
// its message is stale from then on.
func (t Task) update(now Instant) (Task, Effect, error) {
	if !t.isChangeable() {
		return t, None, fmt.Errorf("%w: update while %s", ErrNoEdge, t.State)
	}
	if t.State != Enqueued {
		return t, None, nil
	}
	t.State, t.Worker = Scheduled, ""
	t.Wake = max(now, t.Due)
	return t, None, nil
}

// expire ends a task because a user says that it is of no use any more.
func (t Task) expire(now Instant, p Policy) (Task, Effect, error) {
	if !t.isChangeable() {
		return t, None, fmt.Errorf("%w: expire while %s", ErrNoEdge, t.State)
	}
	return t.end(Expired, now, p), None, nil
}

// redrive makes an ended task wait for a first start. Its attempts count anew; their history stays, and so
// does the attempt number, since reports of older attempts must stay refused.
func (t Task) redrive(e Event) (Task, Effect, error) {
	if !t.State.IsEnd() {
		return t, None, fmt.Errorf("%w: redrive while %s", ErrNoEdge, t.State)
	}
	if (t.State == Success || t.State == Delivered) && !e.Force {
		return t, None, fmt.Errorf("%w: redrive of a task that ended as %s", ErrNoEdge, t.State)
	}
	t.Failures, t.Lost, t.Blamed, t.Suspect = 0, 0, 0, false
	t.CancelRequested = false
	t.Enqueued, t.ClaimedAt, t.Started, t.FirstStarted = 0, 0, 0, 0
	t.Ended, t.ExpireAt, t.StartBefore, t.Result = 0, 0, 0, nil
	t.Chain = t.Chain.inNextRound()
	return t.waitFor(e.Due), None, nil
}

// isChangeable reports whether no worker and no queue of a deliver lambda has the task.
func (t *Task) isChangeable() bool {
	return t.State.IsWaiting() || t.State == Enqueued
}

func (t Task) waitFor(due Instant) Task {
	if t.FirstDue.IsZero() && due != t.Due {
		t.FirstDue = t.Due
	}
	t.State, t.Due, t.Wake = Scheduled, due, due
	t.Enqueues, t.Worker = 0, ""
	return t
}
