package api

import (
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// WireOccurrence returns an occurrence of a cron as it is shown; nil for none.
func WireOccurrence(o *task.Occurrence) *kinesinv1.Occurrence {
	if o == nil {
		return nil
	}
	return &kinesinv1.Occurrence{
		Cron: o.Cron, Revision: o.At.Revision, Nominal: int64(o.At.Nominal), Succeeded: int64(o.Succeeded),
		Backfill: o.Backfill,
	}
}
