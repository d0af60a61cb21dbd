package job

import "github.com/kinesin-io/kinesin/internal/access"

const (
	actionReschedule = "reschedule"
	actionRedrive    = "redrive"
)

// actionBackfill is that of a job that schedules the occurrences of a cron for a past range. It changes no
// set of tasks: its place is the nominal time that it has come to.
const actionBackfill = "backfill"

// action is what a job does.
type action struct {
	verb  access.Verb // that its maker needs on each task, besides read
	ended bool        // it changes ended tasks; others change live ones
	units int         // write units that one task takes on a store that counts them
}

var actions = map[string]action{
	"cancel":         {access.Cancel, false, 2},
	"expire":         {access.Cancel, false, 2},
	actionReschedule: {access.Schedule, false, 3},
	actionRedrive:    {access.Operate, true, 3},
	"delete":         {access.Operate, true, 1},
}

// VerbOf returns the verb that an action needs on each task, besides read; false for an unknown action.
func VerbOf(name string) (access.Verb, bool) {
	a, known := actions[name]
	return a.verb, known
}
