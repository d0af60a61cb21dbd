package cli

import (
	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) redriveCommand() *cobra.Command {
	c := a.setCommand(&cobra.Command{
		Use:   "redrive {--where FILTER | --all} [--lambda L] [--force] [--dry-run] [--pace N] [--detach]",
		Short: "Have ended tasks start anew",
		Long:  `Has the ended tasks that a filter selects start anew, by a job on the server. docs/sets.md describes filters and jobs.`,
	}, sdk.JobRedrive)
	c.Flags().Bool("force", false, "also tasks that ended as success or delivered")
	return c
}
