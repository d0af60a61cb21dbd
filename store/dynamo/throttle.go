package dynamo

import (
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// roundRowsMax bounds a round of a throttled group.
const roundRowsMax = 40 * batchRowsMax

// hold puts a write in line. One that was throttled in a round goes to the front.
func (g *heldGroup) hold(w *write) {
	if w.round == g {
		g.writes = slices.Insert(g.writes, 0, w)
	} else {
		g.writes = append(g.writes, w)
	}
}

// takeExpired removes a write that was held for longer than it may; nil when there is none. One that was not
// sent yet waits for its turn as long as others of the group come through.
func (g *heldGroup) takeExpired(now task.Instant) *write {
	if len(g.writes) == 0 || now.Sub(g.writes[0].held) <= throttleMax {
		return nil
	}
	if g.writes[0].attempts == 0 && now.Sub(g.progress) <= throttleMax {
		return nil
	}
	w := g.writes[0]
	g.writes = withoutFirst(g.writes, 1)
	return w
}

// takeRound removes the writes of the next round.
func (g *heldGroup) takeRound() []*write {
	g.rows = min(max(g.size, batchRowsMax), len(g.writes))
	g.open, g.throttled = g.rows, 0
	round := slices.Clone(g.writes[:g.rows])
	g.writes = withoutFirst(g.writes, g.rows)
	for _, w := range round {
		w.round, w.linger = g, 0
	}
	return round
}

// endRound reports whether there is a pause before the next round.
func (g *heldGroup) endRound() (pauses bool) {
	if g.failures++; 2*g.throttled <= g.rows {
		g.failures = 0
	}
	if g.size = batchRowsMax; g.throttled == 0 {
		g.size = min(2*g.rows, roundRowsMax)
	}
	return g.throttled > 0
}
