package scheduler

import (
	"github.com/kinesin-io/kinesin/task"
)

// quotaWait says when tasks that wait for their quota are tried again. The zero value is of tasks that do
// not.
type quotaWait struct {
	again task.Instant
	more  <-chan struct{} // closed when it may be sooner; nil: it will not be
}

func (w quotaWait) isSet() bool { return !w.again.IsZero() }

// startBudget is what a round has of its quota.
type startBudget struct {
	paced bool
	taken int // starts, some of which the round may not make
}
