package chain

import (
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/store"
)

// call is one call of Apply.
type call struct {
	ops  []store.Op
	from []int // of each op of the caller: its index in ops; -1: it is left out
	ends []ending

	payloads []store.Op // of follow-ups that are put with the end
}

// reset empties the call, so that what it had is not kept in memory.
func (c *call) reset() {
	clear(c.ops)
	clear(c.ends)
	clear(c.payloads)
	c.ops, c.from, c.ends, c.payloads = c.ops[:0], c.from[:0], c.ends[:0], c.payloads[:0]
}

// ending is the end of a task that something follows.
type ending struct {
	at        int // of its task row in call.ops
	followups []*followup
	first     int // of the followups in call.ops; -1: they are put afterwards
	failed    error
	started   []started // of the followups
}

// started is a follow-up that is stored as claimed together with the end of its parent, so that one sync
// stands between the two.
type started struct {
	followup int // in ending.followups
	at       int // of its task row in call.ops
	start    dispatcher.Start
	stored   bool
}

// hasStarted reports whether a follow-up is stored as claimed.
func (e *ending) hasStarted(followup int) bool {
	for i := range e.started {
		if s := &e.started[i]; s.followup == followup {
			return s.stored
		}
	}
	return false
}
