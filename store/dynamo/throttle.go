package dynamo

import (
	"slices"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// roundRowsMax bounds a round of a throttled group.
const roundRowsMax = 40 * batchRowsMax

// heldGroup holds the writes of a group that DynamoDB throttles, so that those of other groups go on. They
// are sent in rounds. A round in which a write was throttled is followed by a pause and a round of one batch;
// otherwise the next round is twice as large, so that the group catches up with what arrives. batcher.mu
// guards it.
type heldGroup struct {
	writes    []*write     // the one that waits longest is first
	progress  task.Instant // when a write was not throttled, or the group began
	size      int          // of the next round, at most
	rows      int          // in the round
	open      int          // writes of the round without an answer
	throttled int          // writes of the round that were throttled
	failures  int          // rounds in a row of which most was throttled
}

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

const (
	// meteredPartitionsMax bounds the partitions that are counted, also when take is never called.
	meteredPartitionsMax = 1 << 14
	// unitBytes is how much of a row DynamoDB writes for a unit.
	unitBytes = 1 << 10
)

// loadMeter counts what the writes to each partition of the schedule consume. batcher.mu guards it.
type loadMeter struct {
	loads map[task.Partition]store.KeyLoad
}

// add counts a write to the schedule. One whose condition does not hold consumes as much as another. A
// deleted row counts as small, since its size is not known here.
func (m *loadMeter) add(w *write, r result) {
	if r == refused || r == unsent {
		return
	}
	load, known := m.loads[w.group.partition]
	switch {
	case !known && len(m.loads) == meteredPartitionsMax:
		return
	case m.loads == nil:
		m.loads = map[task.Partition]store.KeyLoad{}
	}
	if r == throttled {
		load.Throttled = true
	} else {
		load.Units += 1 + w.bytes/unitBytes
	}
	m.loads[w.group.partition] = load
}

// take returns the counts and starts again from zero.
func (m *loadMeter) take() map[task.Partition]store.KeyLoad {
	loads := m.loads
	m.loads = nil
	return loads
}
