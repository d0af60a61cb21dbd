package hold

import (
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// Gates are those of one lambda that have not ended, oldest first.
type Gates []*Gate

// Of returns the gate that holds a task back now; nil: none does. Of several that do, one that pauses comes
// before one that drops, and then the oldest: nothing is lost that somebody wants to keep.
func (all Gates) Of(t *task.Task, now task.Instant) (held *Gate) {
	for _, g := range all {
		if g.Holds(t, now) && (held == nil || held.Action == Drop && g.Action == Pause) {
			held = g
		}
	}
	return held
}

// Equal reports whether both hold the same tasks.
func (all Gates) Equal(other Gates) bool {
	return slices.EqualFunc(all, other, sameForTasks)
}

// Ends returns when the first of those ends by itself that are in force; zero: none does.
func (all Gates) Ends(now task.Instant) (first task.Instant) {
	for _, g := range all {
		if g.InForce(now) && !g.Until.IsZero() && (first.IsZero() || g.Until < first) {
			first = g.Until
		}
	}
	return first
}
