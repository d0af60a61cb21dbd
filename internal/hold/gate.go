// Package hold says what holds a task back: a gate, which pauses or drops the tasks that it selects, also that of a
// circuit breaker. It decides which gate holds a task, and keeps none: how gates are set and known is
// internal/feature/gate. The package reads and writes no task.
package hold

import (
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/task"
)

// Action is what a gate does with a task.
type Action string

// The actions.
const (
	Pause Action = "pause" // it waits
	Drop  Action = "drop"  // it ends as dropped, when it is due
)

// Gate holds back the tasks of a lambda, or those of one priority, one collection or one tag of it. It is
// also the stored form.
type Gate struct {
	control.Meta `json:"-"`

	ID         string `json:"id"`
	Action     Action `json:"action"`
	Lambda     string `json:"lambda"`
	Ref        uint32 `json:"ref"`                // of the lambda: one that is created again is another
	Priority   string `json:"priority,omitempty"` // at most one of these four; none: all tasks
	Class      uint8  `json:"class,omitempty"`    // the index of Priority
	Collection string `json:"collection,omitempty"`
	TagName    string `json:"tag,omitempty"`
	TagValue   string `json:"value,omitempty"`

	Reason  string       `json:"reason"`
	Owner   string       `json:"owner"` // the identity that set it
	Created task.Instant `json:"created"`
	Until   task.Instant `json:"until,omitempty"` // when it ends by itself; zero: never

	// Resumed is when it was told to resume at Pace tasks per second; zero: it was not. From then on it holds
	// only tasks that were to wake by then.
	Resumed task.Instant `json:"resumed,omitempty"`
	Pace    uint32       `json:"pace,omitempty"`
	Ended   task.Instant `json:"ended,omitempty"`
	EndedBy string       `json:"ended_by,omitempty"` // the identity that resumed it

	Breaker *Breaker `json:"breaker,omitempty"` // of a circuit breaker; nil: somebody set the gate

	Request string `json:"request,omitempty"` // id of the call that set it, so that the call can be repeated
}

// InForce reports whether the gate holds tasks back at an instant.
func (g *Gate) InForce(now task.Instant) bool {
	return g.Ended.IsZero() && (g.Until.IsZero() || now < g.Until)
}

// Selects reports whether the gate is about a task.
func (g *Gate) Selects(t *task.Task) bool {
	switch {
	case g.Ref != t.Partition.Lambda:
		return false
	case g.Priority != "":
		return g.Class == t.Partition.Priority
	case g.Collection != "":
		return g.Collection == t.Collection
	case g.TagName != "":
		return slices.Contains(t.Tags, task.Tag{Name: g.TagName, Value: g.TagValue})
	}
	return true
}

// Holds reports whether the gate holds a task back at an instant. A gate that resumes at a pace still holds
// what was to wake before: its tasks go as the pace allows. One that lets probes through holds all others.
func (g *Gate) Holds(t *task.Task, now task.Instant) bool {
	if !g.InForce(now) || !g.Selects(t) {
		return false
	}
	if g.Probes() {
		return !g.isProbe(t)
	}
	return g.Resumed.IsZero() || t.Wake <= g.Resumed
}

// Overlaps reports whether there may be tasks that this gate and another one are about.
func (g *Gate) Overlaps(other *Gate) bool {
	switch {
	case g.Ref != other.Ref:
		return false
	case g.Priority != "" && other.Priority != "":
		return g.Priority == other.Priority
	case g.Collection != "" && other.Collection != "":
		return g.Collection == other.Collection
	case g.TagName != "" && g.TagName == other.TagName:
		return g.TagValue == other.TagValue
	}
	return true
}

// State returns "active", "resuming", "probing" or "ended".
func (g *Gate) State(now task.Instant) string {
	switch {
	case !g.InForce(now):
		return "ended"
	case g.Probes():
		return "probing"
	case !g.Resumed.IsZero():
		return "resuming"
	}
	return "active"
}

// String says for people which gate it is.
func (g *Gate) String() string {
	text := fmt.Sprintf("gate %s %q", g.ID, g.Reason)
	if !g.Until.IsZero() {
		text += " until " + g.Until.Time().UTC().Format(time.RFC3339)
	}
	return text
}

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

// BreakerOwner is the owner of gates that circuit breakers set.
const BreakerOwner = "circuit breaker"

// Breaker is what a circuit breaker keeps in its gate. The gate pauses while it waits; then it is resumed at
// the pace of probes, and holds all other tasks back.
type Breaker struct {
	Opened task.Instant `json:"opened"` // when it paused last
	Times  int          `json:"times"`  // how often it has paused since it was closed; 1 for the first time
	// Succeeded and Failed are the probes whose attempts have ended.
	Succeeded int `json:"succeeded,omitempty"`
	Failed    int `json:"failed,omitempty"`
}

// Probes reports whether the gate is that of a circuit breaker that lets probes through.
func (g *Gate) Probes() bool { return g.Breaker != nil && !g.Resumed.IsZero() }

// isProbe reports whether a task was let through, and has not been claimed since.
func (g *Gate) isProbe(t *task.Task) bool {
	waits := t.State == task.Enqueued || t.State == task.Scheduled && t.Attempt == 0
	return waits && t.Enqueued >= g.Resumed
}

// sameForTasks reports whether two gates hold the same tasks: the same versions, or those of a breaker that
// has only counted probes.
func sameForTasks(a, b *Gate) bool {
	return a.ID == b.ID && (a.Version == b.Version || a.Probes() && b.Probes() && a.Resumed == b.Resumed && a.Ended == b.Ended)
}

// BreakerOf returns the gate of the lambda's circuit breaker; nil if there is none in force.
func (all Gates) BreakerOf(now task.Instant) *Gate {
	for _, g := range all {
		if g.Breaker != nil && g.InForce(now) {
			return g
		}
	}
	return nil
}
