package sim

import (
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

// edgesWanted are the changes of the task row of managed tasks without a gate and an expiry: those of
// docs/state-machine.md, and the first row that a task gets.
var edgesWanted = map[string][]task.State{ //nolint:gochecknoglobals // a table
	"new":               {task.Scheduled, task.Enqueued, task.Claimed, task.Cancelled},
	"scheduled":         {task.Enqueued, task.Claimed, task.Cancelled},
	"enqueued":          {task.Enqueued, task.Claimed, task.Cancelled},
	"claimed":           {task.Claimed, task.Processing, task.Enqueued, task.Scheduled, task.RetriableFailure, task.Success, task.FatalFailure, task.Dead, task.Cancelled},
	"processing":        {task.Processing, task.Enqueued, task.Scheduled, task.RetriableFailure, task.Success, task.FatalFailure, task.Dead, task.Cancelled},
	"retriable_failure": {task.Enqueued, task.Claimed},
}

// Wanted names all that has to happen in a batch of seeds, or the batch shows nothing about it: every kind of
// fault, every state of a task, every kind of answer.
func Wanted() []string {
	var all []string
	for _, kind := range Kinds() {
		all = append(all, string(kind))
	}
	for _, state := range []string{"scheduled", "enqueued", "claimed", "processing", "success", "fatal_failure", "retriable_failure", "dead", "cancelled"} {
		all = append(all, "state "+state)
	}
	for from, states := range edgesWanted {
		for _, to := range states {
			all = append(all, edge(from, to))
		}
	}
	for _, outcome := range []string{checker.OK, checker.Fail, checker.Fatal, checker.Snooze, checker.Obeyed, checker.Poisoned} {
		all = append(all, "outcome "+outcome)
	}
	return append(all, "no faults", "schedule failed", "schedule answered, duplicate false", "schedule answered, duplicate true", "cancelled", "cancelling", "too late to cancel",
		"heartbeat fenced", "parcel delivered", "parcel cancelled", "parcel too late to cancel")
}
