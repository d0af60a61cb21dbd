package sim

import (
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

// edgesWanted are the changes of the task row of managed tasks without a gate and an expiry: those of
// docs/internals/states.md, and the first row that a task gets.
var edgesWanted = map[string][]task.State{ //nolint:gochecknoglobals // a table
	"new":               {task.Scheduled, task.Enqueued, task.Claimed, task.Cancelled},
	"scheduled":         {task.Scheduled, task.Expired, task.Enqueued, task.Claimed, task.Cancelled},
	"enqueued":          {task.Scheduled, task.Expired, task.Enqueued, task.Claimed, task.Cancelled},
	"claimed":           {task.Claimed, task.Processing, task.Enqueued, task.Scheduled, task.RetriableFailure, task.Success, task.FatalFailure, task.Dead, task.Cancelled},
	"processing":        {task.Processing, task.Enqueued, task.Scheduled, task.RetriableFailure, task.Success, task.FatalFailure, task.Dead, task.Cancelled},
	"retriable_failure": {task.Enqueued, task.Claimed, task.Scheduled, task.Cancelled},

	// Changes, and keys that are used again.
	"success":              {task.Scheduled},
	"fatal_failure":        {task.Scheduled},
	"dead":                 {task.Scheduled},
	"cancelled":            {task.Scheduled},
	"expired":              {task.Scheduled},
	"key of fatal_failure": {task.Scheduled, task.Enqueued, task.Claimed},
	"key of dead":          {task.Scheduled},
	"key of cancelled":     {task.Scheduled, task.Enqueued, task.Claimed},
}

// draftsWanted are the answers about tasks that clients change.
var draftsWanted = []string{ //nolint:gochecknoglobals // a table
	"draft: done", "draft: duplicate", "draft: replaced", "draft: key conflict", "draft, not answered",
	"reschedule: done", "reschedule: too late", "reschedule: not found", "reschedule: invalid", "reschedule, not answered",
	"update: done", "update: too late", "update: stale seq", "update: not found", "update, not answered",
	"redrive: done", "redrive: too late", "redrive: key conflict", "redrive: not found", "redrive, not answered",
	"redrive with a payload: done", "redrive with a payload: too late",
	"cancel: cancelled", "cancel: cancelling", "cancel: too late", "cancel: not found", "cancel, not answered", "get: not found", "get: done",
}

// Wanted names all that has to happen in a batch of seeds, or the batch shows nothing about it: every kind of
// fault, every state of a task, every kind of answer.
func Wanted() []string {
	var all []string
	for _, kind := range Kinds() {
		all = append(all, string(kind))
	}
	for _, state := range []string{"scheduled", "enqueued", "claimed", "processing", "success", "fatal_failure", "retriable_failure", "dead", "cancelled", "expired"} {
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
	for _, answer := range draftsWanted {
		all = append(all, "draft "+answer)
	}
	all = append(all, "limits by key changed", "limits by key taken away", "limit key full", "waits for key", "waits for retry budget")
	return append(all, "gate set", "gate ended", "no faults", "schedule failed", "schedule answered, duplicate false", "schedule answered, duplicate true", "cancelled", "cancelling", "too late to cancel",
		"heartbeat fenced", "parcel delivered", "parcel cancelled", "parcel too late to cancel")
}
