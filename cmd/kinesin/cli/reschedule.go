package cli

import (
	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) rescheduleCommand() *cobra.Command {
	c := a.setCommand(&cobra.Command{
		Use:   "reschedule {--where FILTER | --all} {--by D | --spread D | --at TIME} [--lambda L] [--dry-run] [--pace N] [--detach]",
		Short: "Move waiting tasks to another time",
		Long: `Moves the live tasks that a filter selects and that no worker has to another time, by a job on the server. A time in the past
means now. docs/sets.md describes filters and jobs.`,
		Example: `  kinesin reschedule --lambda greet --where 'due<+1h' --spread 2h`,
	}, sdk.JobReschedule)
	c.Flags().String("at", "", "due at this `TIME`, RFC 3339")
	return c
}
