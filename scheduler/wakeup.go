package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// reportTime is how long after a heartbeat a worker may still be about to report what runs: it reports a
// start within 200 ms, and the heartbeat confirms what it names a moment after it renewed the lease. It is
// less than the time between two heartbeats of the shortest lease, so that it always comes to an end.
const reportTime = 500 * time.Millisecond

// action is what follows when a wake-up is due.
type action uint8

const (
	nothing    action = iota // the task ended, or its wake-up moved
	apply                    // apply the event
	markLost                 // the lease ran out: mark it lost first, then apply the event
	checkLater               // nothing has happened yet: check again at until, and leave the row as it is
	checkLease               // the same, and the worker's lease is all there is to check
)

// decision is an action with what it needs.
type decision struct {
	action action
	event  task.Event   // apply, markLost
	until  task.Instant // checkLater, checkLease
}

// facts is what a decision depends on besides the row.
type facts struct {
	now       task.Instant
	since     task.Instant  // since when heartbeats could be received here
	firstSeen task.Instant  // when the claim was first seen here, if it was stamped in the future; else zero
	queueAge  time.Duration // of the oldest due message in the task's queue
	lease     lease.Lease   // of the task's worker, with Receipt and Came by the clock of now
	stored    lease.Lease   // the same as it was read
}

// decide is the pure rule for a wake-up: ATF's table of states and next-trigger times.
func decide(t *task.Task, f facts) decision {
	if t.Wake.IsZero() {
		return decision{}
	}
	switch t.State {
	case task.Scheduled, task.RetriableFailure:
		return decision{action: apply, event: task.Event{Kind: task.Enqueue}}
	case task.Enqueued:
		return decideEnqueued(t, f)
	case task.Claimed, task.Processing:
		return decideRunning(t, f)
	default:
		return decision{}
	}
}

// sentWithin is how long after the write that enqueues a task its message is in the queue, at the latest: so much younger than
// the timeout the oldest message may be when the task is looked at.
const sentWithin = time.Second

// decideEnqueued enqueues again, unless the oldest message of the queue has waited for the timeout: then the
// task's message is most likely still in it. For a task that has expired that is its end, whatever is in the queue.
func decideEnqueued(t *task.Task, f facts) decision {
	if f.queueAge >= task.EnqueueTimeout-sentWithin && !t.IsExpired(f.now) {
		wait := max(task.EnqueueTimeoutAfter(t.Enqueues), 2*f.queueAge)
		return decision{action: checkLater, until: t.NotPastExpiry(f.now.Add(min(wait, task.EnqueueTimeoutMax)))}
	}
	return decision{action: apply, event: task.Event{Kind: task.Enqueue}}
}

// decideRunning goes by the worker's lease.
func decideRunning(t *task.Task, f facts) decision {
	lost := task.Event{Kind: task.WorkerLost, Worker: t.Worker, Attempt: t.Attempt, Blame: f.lease.Blames(t)}
	if f.lease.Lost {
		return decision{action: apply, event: lost}
	}
	if f.lease.Over(f.now, f.since) {
		return decision{action: markLost, event: lost}
	}
	end := f.lease.OverAt(f.since)
	if t.State == task.Processing {
		return decision{action: checkLease, until: end}
	}
	if until := unconfirmedAt(t, f); f.now < until {
		return decision{action: checkLater, until: min(end, until)}
	}
	return decision{action: apply, event: task.Event{Kind: task.Unconfirmed, Worker: t.Worker, Attempt: t.Attempt}}
}

// unconfirmedAt returns when to check a claim again; not after now if the claim got lost on its way. Time
// alone does not tell: a process that was stopped says nothing, and goes on with the attempt when it is
// continued within its lease. So a heartbeat must have come since, also if it is older than it looks, and the
// worker must have had the time to report that the attempt runs.
func unconfirmedAt(t *task.Task, f facts) task.Instant {
	begun := max(t.ClaimedAt, t.HeldUntil())
	if !f.firstSeen.IsZero() { // the clock was set back since
		begun = f.firstSeen.Add(begun.Sub(t.ClaimedAt))
	}
	confirmBy := max(begun, f.since).Add(task.ClaimTimeout)
	switch {
	case f.now < confirmBy:
		return confirmBy
	case f.lease.Came < confirmBy:
		return f.now.Add(f.lease.HeartbeatEvery())
	default:
		return f.lease.Receipt.Add(reportTime)
	}
}
