package sim

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
)

// judge says what was wrong with a run that is over.
func (w *world) judge() []string {
	taken, found := w.ledger.edges()
	for _, edge := range taken {
		w.saw(edge)
	}
	found = append(append(found, w.breaches...), w.checkCalm()...)
	apart := w.plan.Apart + w.plan.slewed() + 10*time.Millisecond // drift
	events := w.history()
	found = append(found, w.checkHandlers(events)...)
	given := givenUp(events)
	for i := range events {
		e := &events[i]
		if e.Kind == checker.Ended {
			w.saw("outcome " + e.Outcome)
		}
		if e.Kind == checker.Acked {
			e.Due -= (2*apart + w.plan.stepsForward() + w.plan.stepsBack()).Microseconds() // what waits follows the wall clock
			if given[e.Task] {
				e.Want = "dead"
			}
		}
	}
	for _, v := range checker.Check(events, checker.Options{Settle: 30 * time.Second, Ahead: 30 * time.Second, Wake: time.Second, Lease: w.plan.Lease}) {
		if v.Rule == checker.Lost && (given[v.Task] || w.reused[v.Task]) {
			continue // what was given up may not have started: claims are lost with their workers, too
		}
		if v.Rule == checker.Early && w.reused[v.Task] {
			continue // the due time is that of the second life, and the first ran before it
		}
		if w.plan.farApart() && slices.Contains(needsClocks, v.Rule) {
			continue
		}
		found = append(found, v.String())
	}
	return found
}

// needsClocks are the rules that hold as long as the clocks of servers agree.
var needsClocks = []checker.Rule{checker.Overlap, checker.Late, checker.Duplicate, checker.Charged} //nolint:gochecknoglobals // a table

// lostMax is after how many lost workers in a row a task is given up (ADR 5).
const lostMax = 3

// givenUp finds the tasks that are dead because their workers were lost too often. It is checked apart from
// this that so many were.
func givenUp(events []checker.Event) map[string]bool {
	given := map[string]bool{}
	for _, e := range events {
		if e.Kind == checker.Reported && e.State == "dead" && e.Lost >= lostMax {
			given[e.Task] = true
		}
	}
	return given
}
