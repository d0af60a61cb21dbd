package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// Hooks are called when something happens; any may be nil. They must not block, and must not keep or change
// tasks. The lambda is nil when it has been deleted.
type Hooks struct {
	// Claimed is called when an attempt was claimed.
	Claimed func(l *catalog.Entry, t *task.Task)
	// Matched is called when that was a direct hand-off: one write dispatched and claimed the task.
	Matched func(l *catalog.Entry, t *task.Task)
	// Started is called when a task's first attempt is known to have started, late after it was due.
	Started func(l *catalog.Entry, t *task.Task, late time.Duration)
	// Finished is called when a worker's attempt ended; t is the task after it.
	Finished func(l *catalog.Entry, t *task.Task, o task.Outcome)
	// Lost is called for each attempt that was taken back because its worker's process has ended; t is the
	// task after that.
	Lost func(t *task.Task)
	// Refused is called for a message that led to no claim. The reason is one of the Refused… constants.
	Refused func(reason string, n int)
	// Died is called when a worker's process was seen to have ended and so many of its tasks were taken back.
	Died func(worker string, tasks int)
	// Failed is called when a call to the store or the queue failed; it is repeated, or left to a wake-up.
	// what is one of a few texts.
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
	// RefusedExpired: the time to start the task is over. Its wake-up ends it.
	RefusedExpired = "expired"
	// RefusedHeld: a gate holds the task, which waits in its row again.
	RefusedHeld = "held"
)

func (h Hooks) withDefaults() Hooks {
	if h.Claimed == nil {
		h.Claimed = func(*catalog.Entry, *task.Task) {}
	}
	if h.Lost == nil {
		h.Lost = func(*task.Task) {}
	}
	if h.Matched == nil {
		h.Matched = func(*catalog.Entry, *task.Task) {}
	}
	if h.Started == nil {
		h.Started = func(*catalog.Entry, *task.Task, time.Duration) {}
	}
	if h.Finished == nil {
		h.Finished = func(*catalog.Entry, *task.Task, task.Outcome) {}
	}
	if h.Refused == nil {
		h.Refused = func(string, int) {}
	}
	if h.Died == nil {
		h.Died = func(string, int) {}
	}
	if h.Failed == nil {
		h.Failed = func(string, error) {}
	}
	return h
}
