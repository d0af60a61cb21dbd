package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// sayRunsIn is how long after a heartbeat a worker may still be about to say what runs: it reports a start
// within 200 ms, and the heartbeat itself confirms what it names a moment after it renewed the lease. It is
// less than the time between two heartbeats of the shortest lease, so that it always comes to an end.
const sayRunsIn = 500 * time.Millisecond

// verdict is what a fired wake-up leads to.
type verdict uint8

const (
	nothing   verdict = iota // the task ended, or its wake-up moved
	carryOut                 // the event is to be applied
	reclaim                  // the lease ran out: mark it lost first, then apply the event
	lookAgain                // nothing has happened yet: look again at until, and leave the row as it is
	lookLease                // the same, and the worker's lease alone will tell
)

// decision is a verdict with what it needs.
type decision struct {
	verdict verdict
	event   task.Event   // carryOut, reclaim
	until   task.Instant // lookAgain, lookLease
}

// circumstances is all that a decision about a fired wake-up may depend on besides the row.
type circumstances struct {
	now      task.Instant
	since    task.Instant  // from when on a heartbeat could be taken here: one before may have found nobody
	met      task.Instant  // when the claim was first seen here, if it was stamped in the future; else zero
	queueAge time.Duration // of the oldest due message in the task's queue
	lease    lease.Lease   // of the task's worker, with a receipt by the clock of now
	seen     lease.Lease   // the same as it was read
}

// decide is the pure rule for a wake-up: ATF's table of states and next-trigger times.
func decide(t *task.Task, c circumstances) decision {
	if t.Wake.IsZero() {
		return decision{}
	}
	switch t.State {
	case task.Scheduled, task.RetriableFailure:
		return decision{verdict: carryOut, event: task.Event{Kind: task.Enqueue}}
	case task.Enqueued:
		return decideEnqueued(t, c)
	case task.Claimed, task.Processing:
		return decideRunning(t, c)
	default:
		return decision{}
	}
}

// decideEnqueued is the re-enqueue with its brake: while the queue itself is older than the
// timeout the message is most likely still in it, so nothing is sent.
func decideEnqueued(t *task.Task, c circumstances) decision {
	if c.queueAge >= task.EnqueueTimeout {
		wait := max(task.EnqueueTimeoutAfter(t.Enqueues), 2*c.queueAge)
		return decision{verdict: lookAgain, until: c.now.Add(min(wait, task.EnqueueTimeoutMax))}
	}
	return decision{verdict: carryOut, event: task.Event{Kind: task.Enqueue}}
}

// decideRunning looks at the worker's lease; the task follows it.
func decideRunning(t *task.Task, c circumstances) decision {
	lost := task.Event{Kind: task.WorkerLost, Worker: t.Worker, Attempt: t.Attempt, Blame: c.lease.Blames(t)}
	if c.lease.Lost {
		return decision{verdict: carryOut, event: lost}
	}
	if c.lease.Over(c.now, c.since) {
		return decision{verdict: reclaim, event: lost}
	}
	end := goodUntil(&c.lease, c.since)
	if t.State == task.Processing {
		return decision{verdict: lookLease, until: end}
	}
	if until := unconfirmedAt(t, c); c.now < until {
		return decision{verdict: lookAgain, until: min(end, until)}
	}
	return decision{verdict: carryOut, event: task.Event{Kind: task.Unconfirmed, Worker: t.Worker, Attempt: t.Attempt}}
}

// goodUntil is when a lease is over unless it is renewed.
func goodUntil(l *lease.Lease, since task.Instant) task.Instant {
	return max(l.Receipt, since).Add(l.Length + task.ClockBound)
}

// unconfirmedAt is when to look at a claim again, or, if that is not later than now, whether it got lost on
// its way. Time alone does not tell: a process that was stopped says nothing, and goes on with the attempt
// when it is continued within its lease. So the worker must have been heard since, and have had a moment to
// say that the attempt runs.
func unconfirmedAt(t *task.Task, c circumstances) task.Instant {
	begun := max(t.ClaimedAt, t.HeldUntil())
	if !c.met.IsZero() { // the clock was set back since
		begun = c.met.Add(begun.Sub(t.ClaimedAt))
	}
	confirmBy := max(begun, c.since).Add(task.ClaimTimeout)
	switch {
	case c.now < confirmBy:
		return confirmBy
	case c.lease.Receipt < confirmBy:
		return c.now.Add(c.lease.HeartbeatEvery())
	default:
		return c.lease.Receipt.Add(sayRunsIn)
	}
}
