package api

import (
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// WireAttempt returns an attempt that is over as it is shown.
func WireAttempt(a *task.Attempt) *kinesinv1.Attempt {
	return &kinesinv1.Attempt{
		Number: a.Number, Worker: a.Worker, Start: int64(a.Start), End: int64(a.End),
		Outcome: a.Outcome.String(), Error: a.Error, Version: task.WorkerVersion(a.Worker),
	}
}
