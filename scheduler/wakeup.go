package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// verdict is what a fired wake-up leads to.
type verdict uint8

const (
	nothing  verdict = iota // the task ended, or its wake-up moved
	carryOut                // the event is to be applied
	reclaim                 // the lease ran out: mark it lost first, then apply the event
)

// circumstances is all that a decision about a fired wake-up may depend on besides the row.
type circumstances struct {
	now      task.Instant
	quiet    task.Instant  // before this no lease is taken to have run out
	queueAge time.Duration // of the oldest due message in the task's queue
	lease    Lease         // of the task's worker
}

// decide is the pure rule for a wake-up: ATF's table of states and next-trigger times.
func decide(t *task.Task, c circumstances) (task.Event, verdict) {
	if t.Wake.IsZero() {
		return task.Event{}, nothing
	}
	switch t.State {
	case task.Scheduled, task.RetriableFailure:
		return task.Event{Kind: task.Enqueue}, carryOut
	case task.Enqueued:
		return decideEnqueued(t, c)
	case task.Claimed, task.Processing:
		return decideRunning(t, c)
	default:
		return task.Event{}, nothing
	}
}

// decideEnqueued is the re-enqueue with its brake: while the queue itself is older than the
// timeout the message is most likely still in it, so only the wake-up moves.
func decideEnqueued(t *task.Task, c circumstances) (task.Event, verdict) {
	if c.queueAge >= task.EnqueueTimeout {
		wait := max(task.EnqueueTimeoutAfter(t.Enqueues), 2*c.queueAge)
		return task.Event{Kind: task.Extend, Until: c.now.Add(min(wait, task.EnqueueTimeoutMax))}, carryOut
	}
	return task.Event{Kind: task.Enqueue}, carryOut
}

// decideRunning looks at the worker's lease; the task follows it.
func decideRunning(t *task.Task, c circumstances) (task.Event, verdict) {
	lost := task.Event{
		Kind: task.WorkerLost, Worker: t.Worker, Attempt: t.Attempt, Blame: c.lease.Suspect == t.ID,
	}
	if !c.lease.Held {
		return lost, carryOut
	}
	end := max(c.lease.End.Add(task.ClockBound), c.quiet)
	if c.now >= end {
		return lost, reclaim
	}
	confirmBy := max(t.ClaimedAt, t.Due).Add(task.ClaimTimeout)
	if t.State == task.Processing {
		return task.Event{Kind: task.Extend, Until: end}, carryOut
	}
	if c.now >= max(confirmBy, c.quiet) {
		return task.Event{Kind: task.Unconfirmed, Worker: t.Worker, Attempt: t.Attempt}, carryOut
	}
	return task.Event{Kind: task.Extend, Until: min(end, max(confirmBy, c.quiet))}, carryOut
}
