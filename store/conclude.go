package store

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Conclusion is what a wake-up row and the task row that was read after it mean together. docs/internals/protocol.md
// derives the rules.
type Conclusion uint8

// The conclusions.
const (
	// Undispatched means that there is no task row and that the wake-up row is the task.
	Undispatched Conclusion = iota
	// Live means that the task is live and that this wake-up row wakes it.
	Live
	// Leftover means that no task needs the wake-up row, so that it may be deleted at the seq that was seen.
	Leftover
	// Unclear means that the wake-up row must stay: it may belong to a move, a redrive or a new task with the
	// key that the task row does not show yet, or the task row cannot be read.
	Unclear
)

// CallMax is longer than any call to schedule a task takes, pauses of its process included. A task with a key
// whose wake-up row is older and that has no task row was never acknowledged, or has ended and expired.
const CallMax = 5 * time.Minute

// Conclude decides what to think of a wake-up row. row is the task row, from a strongly consistent read after
// that of the wake-up row; its ID is zero if there is none.
func Conclude(wakeup, row *task.Task, now task.Instant) Conclusion {
	switch {
	case !row.ID.IsZero() && row.IsBare():
		return Unclear // it cannot be read
	case row.ID.IsZero() && (wakeup.IsBare() || wakeup.Key != "" && !isYoung(wakeup, now)):
		return Leftover
	case row.ID.IsZero():
		return Undispatched
	case !row.State.IsEnd() && KeyOf(row) == KeyOf(wakeup):
		return Live // at any seq, because there is only one row at an instant
	case wakeup.WakeRow.Seq > row.Seq && isToCome(wakeup, row, now):
		return Unclear
	}
	return Leftover
}

// isToCome reports whether a wake-up row with a higher seq than the task row may be followed by a task row
// that names it: as long as the call goes on that put it. The seq of a bare row is the microsecond when its
// call began (SeqAfter), or that after the task row's where a clock was set back.
func isToCome(wakeup, row *task.Task, now task.Instant) bool {
	if !wakeup.IsBare() {
		return row.State.IsEnd() && isYoung(wakeup, now)
	}
	return wakeup.WakeRow.Seq == row.Seq+1 || now <= task.Instant(wakeup.WakeRow.Seq).Add(CallMax)
}

// isYoung reports whether the call that stored a wake-up row may be under way.
func isYoung(wakeup *task.Task, now task.Instant) bool { return now <= wakeup.Created.Add(CallMax) }
