package hold

import "github.com/kinesin-io/kinesin/task"

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
