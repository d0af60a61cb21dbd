package sim

import (
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
)

// judge says what was wrong with a run that is over.
func (w *world) judge() []string {
	found := w.breaches
	apart := w.plan.Apart + 10*time.Millisecond // drift
	events := w.history()
	for i := range events {
		if events[i].Kind == checker.Acked {
			events[i].Due -= (2 * apart).Microseconds()
		}
	}
	for _, v := range checker.Check(events, checker.Options{Settle: 30 * time.Second, Ahead: 30 * time.Second, Wake: time.Second, Lease: w.plan.Lease}) {
		found = append(found, v.String())
	}
	return found
}
