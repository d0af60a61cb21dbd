package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/lease"
	"github.com/kinesin-io/kinesin/task"
)

// sayRunsIn is how long after a heartbeat a worker may still be about to say what runs: it reports a start within 200 ms,
// and the heartbeat itself confirms what it names a moment after it renewed the lease. It is less than the time between
// two heartbeats of the shortest lease, so that it always comes to an end.
const sayRunsIn = 500 * time.Millisecond

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
	since    task.Instant  // when this scheduler started: a heartbeat before may have found nobody
	queueAge time.Duration // of the oldest due message in the task's queue
	lease    lease.Lease   // of the task's worker
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
	lost := task.Event{Kind: task.WorkerLost, Worker: t.Worker, Attempt: t.Attempt, Blame: c.lease.Blames(t)}
	if c.lease.Lost {
		return lost, carryOut
	}
	if c.lease.Over(c.now, c.since) {
		return lost, reclaim
	}
	end := max(c.lease.Receipt, c.since).Add(c.lease.Length + task.ClockBound)
	if t.State == task.Processing {
		return task.Event{Kind: task.Extend, Until: end}, carryOut
	}
	if until := unconfirmedAt(t, c); c.now < until {
		return task.Event{Kind: task.Extend, Until: min(end, until)}, carryOut
	}
	return task.Event{Kind: task.Unconfirmed, Worker: t.Worker, Attempt: t.Attempt}, carryOut
}

// unconfirmedAt is when to look at a claim again, or, if that is not later than now, whether it got lost on its way. Time
// alone does not tell: a process that was stopped says nothing, and goes on with the attempt when it is continued within its
// lease. So the worker must have been heard since, and have had a moment to say that the attempt runs.
func unconfirmedAt(t *task.Task, c circumstances) task.Instant {
	confirmBy := max(t.ClaimedAt, t.Due, c.since).Add(task.ClaimTimeout)
	switch {
	case c.now < confirmBy:
		return confirmBy
	case c.lease.Receipt < confirmBy:
		return c.now.Add(c.lease.HeartbeatEvery())
	default:
		return c.lease.Receipt.Add(sayRunsIn)
	}
}
