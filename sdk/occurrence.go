package sdk

import (
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Occurrence says which occurrence of a cron a task is.
type Occurrence struct {
	Cron     string
	Revision uint64    // of the cron; rises with each change of it
	Nominal  time.Time // when the cron's expression fires, in UTC: the task's due time without jitter
	// PreviousSuccess is the nominal time of the newest occurrence before it that succeeded; zero if there is
	// none, or its row is not kept any more.
	PreviousSuccess time.Time
	Backfill        bool // a backfill has scheduled it (JobBackfill), so that its nominal time had passed by then
}

func occurrenceOf(w *kinesinv1.Occurrence) *Occurrence {
	if w == nil {
		return nil
	}
	return &Occurrence{Cron: w.Cron, Revision: w.Revision, Nominal: timeOf(w.Nominal), PreviousSuccess: timeOf(w.Succeeded), Backfill: w.Backfill}
}
