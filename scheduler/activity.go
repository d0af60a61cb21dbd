package scheduler

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

const (
	activityKind = "passes"
	activityName = "all"
	// recordEvery is how often every process renews the record, recordFirst how long after its start it does
	// so first: a process that dies at once has made no full scan. recordRetry is the pause after a failure.
	recordEvery = task.EndedMin / 3
	recordFirst = time.Minute
	recordRetry = 10 * time.Second
	// recordAgeMax is how old the record may be while a scheduler dispatches.
	recordAgeMax = 2 * recordEvery
)

// activityRecord says when schedulers ran over a store.
type activityRecord struct {
	At   task.Instant `json:"at"` // the last time; zero: not known
	Gaps []gap        `json:"gaps,omitempty"`

	stored task.Instant // At as it is in the store: since then the wall clock may have been set
}

// gap is a time in which no scheduler recorded that it ran.
type gap struct {
	From task.Instant `json:"from"`
	Till task.Instant `json:"till"`
}

// outlasts reports whether an ended row that is kept for so long may have expired before a full scan has seen
// its wake-up row.
func (g gap) outlasts(kept time.Duration) bool { return g.Till.Sub(g.From)+passesApart(kept) > kept }

// covers reports whether every row that is stale by another gap is stale by this one.
func (g gap) covers(other gap) bool {
	return g.From >= other.From && g.Till.Sub(g.From) >= other.Till.Sub(other.From)
}

// isStale reports whether a wake-up row that holds a task and has no task row may be of a task that was
// dispatched, ended and expired. In a gap only the process that stores a task dispatches it, and then the row
// says so.
func (g gap) isStale(row *task.Task, retention time.Duration) bool {
	kept := max(retention, task.EndedMin)
	switch {
	case row.Key != "" || row.IsBare() || !g.outlasts(kept):
		return false
	case row.State == task.Scheduled:
		return max(row.WakeRow.At, row.Created) <= g.From.Add(recordAgeMax)
	}
	return row.Created.Add(kept) <= g.Till
}

// add adds a gap, if it matters.
func (r *activityRecord) add(g gap) {
	if g.From.IsZero() || !g.outlasts(task.EndedMin) || slices.ContainsFunc(r.Gaps, func(old gap) bool { return old.covers(g) }) {
		return
	}
	r.Gaps = append(slices.DeleteFunc(slices.Clone(r.Gaps), g.covers), g)
}
