package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A group whose attempts are short gets tasks beyond its free slots, so that a slot need not stay empty while
// the next claim is made durable. The worker keeps them in order and gives back, uncharged, what had to wait.
const (
	extraPerSlot = 3    // tasks beyond each slot
	extraMax     = 1024 // of a group
	// shortMax is the mean time of an attempt, from its start to its result's receipt, up to which it is
	// short.
	shortMax = 20 * time.Millisecond
	// neverStarted is what an attempt counts for that came back without a start: the slots are busy for long.
	neverStarted = time.Second
	paceShare    = 8 // the newest attempt counts for one in so many
)

// pace is how long the attempts of a group take: a moving mean. The zero pace is that of a group of which
// nothing is known.
type pace struct {
	mean  time.Duration
	known bool
}

// note counts an attempt whose result came now; started is zero if it never did.
func (p *pace) note(started, now task.Instant) {
	took := neverStarted
	if !started.IsZero() {
		took = min(max(now.Sub(started), 0), neverStarted)
	}
	if !p.known {
		p.mean, p.known = took, true
		return
	}
	p.mean += (took - p.mean) / paceShare
}

// extra is how many tasks beyond its slots a group may get.
func (p *pace) extra(slots int) int {
	if !p.known || p.mean > shortMax {
		return 0
	}
	return min(extraPerSlot*slots, extraMax)
}
