package store

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Conclusion is what a wake-up row and the task row that was read after it say together. docs/protocol.md
// derives it.
type Conclusion uint8

// The conclusions.
const (
	// Undispatched says that there is no task row and the wake-up row is the task.
	Undispatched Conclusion = iota
	// Live says that the task row lives and is woken by this wake-up row.
	Live
	// Leftover says that nobody needs the wake-up row, so that it may be deleted as it was seen.
	Leftover
	// Unclear says that the wake-up row may be that of a move which the task row does not show yet, or that
	// the task row cannot be read: it is left alone.
	Unclear
)

// CallMax is longer than any call to schedule a task takes, with all that keeps its process from going on. A
// task with a key whose wake-up row is older and that has no task row was never acknowledged, or has ended
// and expired.
const CallMax = 5 * time.Minute

// Conclude is the rule for a wake-up row and its task row, which was read later, strongly consistent; its ID
// is zero if there is none.
func Conclude(wakeup, row *task.Task, now task.Instant) Conclusion {
	switch {
	case !row.ID.IsZero() && row.IsBare():
		return Unclear // it cannot be read
	case row.ID.IsZero() && (wakeup.IsBare() || wakeup.Key != "" && now > wakeup.Created.Add(CallMax)):
		return Leftover
	case row.ID.IsZero():
		return Undispatched
	case !row.State.IsEnd() && KeyOf(row) == KeyOf(wakeup):
		return Live // whatever its seq: all that is stored for one instant is one row
	case wakeup.IsBare() && wakeup.WakeRow.Seq > row.Seq:
		return Unclear
	}
	return Leftover
}
