package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// A task may cost this much where neither store, queue nor network nor clocks fail, and no process is killed
// or stopped (I15): its wake-up row, first row, message's row, claim, start, end and the delete, and for each
// further attempt a claim, a start, a result and the way to the next.
const (
	writesMax           = 8
	writesPerAttemptMax = 5
	writesPerCallMax    = 4 // each repeated Schedule, and each Cancel
	writesPerChangeMax  = 5 // each other change by a user: two wake-up rows, its row, maybe its first row, and the next message's
	messagesPerRunMax   = 2
	// A task that a gate holds may be put back and sent again.
	writesPerGateMax, messagesPerGateMax = 6, 3
)

// checkWork is invariant I15: bounded work, of a run without faults; calls is how often clients scheduled or
// cancelled one task at most.
func (l *ledger) checkWork(calls int) (breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.accounts {
		gates := 0
		if a.held {
			gates = 2
		}
		if most := gates*writesPerGateMax + writesMax + writesPerAttemptMax*int(max(a.attempts, 1)-1) + writesPerCallMax*calls + writesPerChangeMax*a.changes; a.writes > most {
			breaches = append(breaches, fmt.Sprintf("I15: task %s with %d attempts took %d writes, want at most %d", id, a.attempts, a.writes, most))
		}
		if most := gates*messagesPerGateMax + messagesPerRunMax*int(max(a.attempts, 1)) + a.changes; a.messages > most {
			breaches = append(breaches, fmt.Sprintf("I15: task %s with %d attempts took %d messages, want at most %d", id, a.attempts, a.messages, most))
		}
	}
	slices.SortFunc(breaches, strings.Compare)
	return breaches
}

// awayCallsMax is how often a second each server may try to reach a store that is away, over awayMin or more:
// what it is asked to do, and what it does by itself.
const (
	awayCallsMax = 200
	awayMin      = 30 * time.Second
)

// checkAwayCalls is invariant I15 while the store is away.
func (w *world) checkAwayCalls(calls int, away time.Duration) {
	if most := awayCallsMax * int(away.Seconds()) * (w.plan.Servers + 2); away >= awayMin && calls > most { // two may have joined
		w.breach("I15: %d calls of a store that was away for %v, want at most %d", calls, away, most)
	}
}

// lateMax is how long after its time a task is sent or claimed at the latest where nothing fails: some calls
// of the store, each of which takes milliseconds.
const lateMax = 50 * time.Millisecond

// checkLate is invariants I11 and I14, of a run without faults: no task waits for its turn to be sent,
// whatever else there is. The server's clock may be apart from true time.
func (l *ledger) checkLate(apart time.Duration) (breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.accounts {
		if a.sent && a.late > lateMax+apart {
			breaches = append(breaches, fmt.Sprintf("I11: task %s was sent %v after it was due, want at most %v", id, a.late, lateMax+apart))
		}
	}
	slices.SortFunc(breaches, strings.Compare)
	return breaches
}

// calm takes the faults and the poisons out of one plan in ten, which is then judged strictly.
func (p *Plan) calm(seed uint64) {
	if seed%10 != 0 {
		return
	}
	p.Calm, p.Faults, p.Graphs = true, nil, nil // what follows is sent later where another server owns its partition
	for i := range p.Load {
		p.Load[i].Task.Poison = false
	}
}

// checkCalm is what holds in a run without faults.
func (w *world) checkCalm() []string {
	if !w.plan.Calm {
		return nil
	}
	w.saw("no faults")
	return slices.Concat(w.ledger.checkWork(2), w.ledger.checkLate(w.plan.Apart+10*time.Millisecond), onlyOnce(w.history()))
}
