package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/task"
)

// managedMode dispatches a partition of a managed lambda: what is due as far as the queue has room, and what
// is in flight when its check is due. Checks never wait behind tasks that wait for room.
type managedMode struct {
	*loop

	unsent   bool // in this round something failed that there was room for
	room     queueRoom
	starts   startBudget
	resend   []task.Task // enqueued tasks whose messages may not be on their queue
	leftover []task.Task // wake-up rows that no task needs

	overBudget []task.ID       // in flight, and waiting for the retry budget
	breaker    backoff.Breaker // for calls about leases and queues, opened by a round in which some failed
}

// queueRoom says whether tasks of a round had to wait for room in their queue, or for their quota.
type queueRoom struct {
	lacking bool
	back    <-chan struct{} // closed when there is room again; nil when the queue cannot tell
	quota   quotaWait       // set when the quota was lacking
}

func (m *managedMode) end(context.Context) {}

func (m *managedMode) rests() bool {
	return len(m.resend)+len(m.leftover) == 0 && !m.breaker.Fails()
}

func (m *managedMode) shift(time.Duration) {}

// follow has a task checked when it wakes. In a foreign partition its owner does that.
func (m *managedMode) follow(t *task.Task) {
	if t.State.IsEnd() || m.foreign {
		m.inFlight.drop(t.ID)
		return
	}
	m.await(t, t.State.IsWaiting())
}

// leaveAlone leaves a row for a while that an error keeps where it is, so that scans pass over it.
func (m *managedMode) leaveAlone(t *task.Task) {
	m.inFlight.put(m.inFlightAt(t, m.now().Add(brokenRowPause)))
}

// takeOver reports a task that was claimed before the partition came to this process, or has its message sent
// again. The time of that follows the wall clock when it is set back, as does the stamp of a claim.
func (m *managedMode) takeOver(t *task.Task) {
	if t.State == task.Claimed && t.ClaimedAt <= m.reader.full.since && m.found != nil && !m.foreign {
		m.found(t)
	}
	m.resendIfLost(t)
}

// resendIfLost has the message of an enqueued task sent again if the process that enqueued it has gone just
// after, or had it in memory. Other enqueued tasks follow their timers.
func (m *managedMode) resendIfLost(t *task.Task) {
	now := m.now()
	switch {
	case m.foreign:
	case t.State != task.Enqueued || wakesAt(t, now) <= now: // its wake-up sends it
	case !m.Queue.Durable() && t.Enqueued < m.wall.local(m.wall.start), m.isGone(t.Worker) && now.Sub(t.Enqueued) < task.EnqueueTimeout:
		m.resend = append(m.resend, *t)
	}
}

// dueInBuffer returns about how many tasks are due that wait for no slot of a limit key.
func (m *managedMode) dueInBuffer(now task.Instant) int64 {
	due := m.buffer.waiting(now, 0, partitionRowsMax)
	if m.keys != nil {
		due += m.keys.dueReady
	}
	return int64(due)
}
