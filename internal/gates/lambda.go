package gates

import (
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// Gates are those of one lambda that have not ended, oldest first.
type Gates []*Gate

// OfLambda returns the gates of a lambda. They must not be changed.
func (b *Book) OfLambda(lambda uint32) Gates { return b.Value()[lambda] }

// Of returns the gate that holds a task back, as Book.Of does.
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
