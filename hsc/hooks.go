package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// Hooks are told what happened. A nil hook is not called. They must not block. The lambda is
// nil when it has been deleted; tasks must not be kept or changed.
type Hooks struct {
	// Claimed: an attempt was claimed; waited is the time since the task was due in its queue.
	Claimed func(l *catalog.Entry, t *task.Task, waited time.Duration)
	// Matched: that attempt was claimed in the write that dispatched its task, without a message.
	Matched func(l *catalog.Entry, t *task.Task)
	// Started: a task's first attempt is known to have started; late is the time since it was due.
	Started func(l *catalog.Entry, t *task.Task, late time.Duration)
	// Finished: a worker's attempt ended and t is the task after it; took is from start to end, 0 when it
	// never started.
	Finished func(l *catalog.Entry, t *task.Task, o task.Outcome, took time.Duration)
	// Refused: messages led to no claim. The reason is one of the Refused… constants.
	Refused func(reason string, n int)
	// Fenced: a report of an attempt that does not own its task was refused.
	Fenced func()
	// LeaseOpened, LeaseLeft, LeaseLost: what became of worker leases, as far as it was seen here.
	LeaseOpened func(worker string)
	LeaseLeft   func(worker string)
	LeaseLost   func(worker string)
	// Died: the process of a worker was seen to have ended, and so many of its tasks were taken back.
	Died func(worker string, tasks int)
	// Heartbeat: a heartbeat was taken; left is what remained of the lease it renewed, negative when that
	// had run out.
	Heartbeat func(left time.Duration)
	// Failed: the store or the queue failed and what was asked is tried again or left to a wake-up. what says
	// what was attempted, in one of a few texts.
	Failed func(what string, err error)
}

// Reasons of a refused claim.
const (
	RefusedEnded = "ended" // the task has ended
	RefusedTaken = "taken" // an attempt owns the task
	RefusedStale = "stale" // the task has moved on since the message was sent
	RefusedGone  = "gone"  // there is no such task
	RefusedTwice = "twice" // another message of the same delivery is for the same task
	RefusedAgain = "again" // the message has led to a claim here already
)

func (h *Hooks) claimed(l *catalog.Entry, t *task.Task, now task.Instant) {
	if h.Claimed != nil {
		h.Claimed(l, t, max(now.Sub(max(t.Due, t.Enqueued)), 0))
	}
}

func (h *Hooks) matched(l *catalog.Entry, t *task.Task) {
	if h.Matched != nil {
		h.Matched(l, t)
	}
}

func (h *Hooks) started(l *catalog.Entry, before, after *task.Task) {
	if h.Started != nil && before.FirstStarted.IsZero() && !after.FirstStarted.IsZero() {
		h.Started(l, after, after.FirstStarted.Sub(after.Due))
	}
}

func (h *Hooks) finished(l *catalog.Entry, t *task.Task, o task.Outcome) {
	if h.Finished == nil || len(t.History) == 0 {
		return
	}
	last := &t.History[len(t.History)-1]
	took := time.Duration(0)
	if !last.Start.IsZero() {
		took = max(last.End.Sub(last.Start), 0)
	}
	h.Finished(l, t, o, took)
}

func (h *Hooks) refused(reason string, n int) {
	if h.Refused != nil && n > 0 {
		h.Refused(reason, n)
	}
}

func (h *Hooks) fenced() {
	if h.Fenced != nil {
		h.Fenced()
	}
}

func (h *Hooks) leaseOpened(worker string) { callWith(h.LeaseOpened, worker) }
func (h *Hooks) leaseLeft(worker string)   { callWith(h.LeaseLeft, worker) }
func (h *Hooks) leaseLost(worker string)   { callWith(h.LeaseLost, worker) }

func (h *Hooks) died(worker string, tasks int) {
	if h.Died != nil {
		h.Died(worker, tasks)
	}
}

func callWith(hook func(string), worker string) {
	if hook != nil {
		hook(worker)
	}
}

func (h *Hooks) heartbeat(left time.Duration) {
	if h.Heartbeat != nil {
		h.Heartbeat(left)
	}
}

func (h *Hooks) failed(what string, err error) {
	if h.Failed != nil {
		h.Failed(what, err)
	}
}
