package sim

import (
	"fmt"

	"github.com/kinesin-io/kinesin/test/checker"
)

// onlyOnce is invariant I8 without faults: after an attempt comes another only if it failed or snoozed, and
// its worker is never lost.
func onlyOnce(events []checker.Event) (breaches []string) {
	runs, again := map[string]uint32{}, map[string]uint32{}
	for _, e := range events {
		switch {
		case e.Kind == checker.Started:
			runs[e.Task]++
			if runs[e.Task] > again[e.Task]+1 {
				breaches = append(breaches, fmt.Sprintf("I8: task %s began %d times without faults, after %d results that ask for it", e.Task, runs[e.Task], again[e.Task]))
			}
		case e.Kind == checker.Ended && (e.Outcome == checker.Fail || e.Outcome == checker.Snooze):
			again[e.Task]++
		case e.Kind == checker.Reported && (e.Lost > 0 || e.Attempt < runs[e.Task]): // more: a worker that was busy gave it back
			breaches = append(breaches, fmt.Sprintf("I8: task %s began %d times without faults, and is reported at attempt %d with %d lost", e.Task, runs[e.Task], e.Attempt, e.Lost))
		}
	}
	return breaches
}
