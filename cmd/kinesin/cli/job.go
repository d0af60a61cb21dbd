package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) jobCommand() *cobra.Command {
	n := a.jobs()
	control := func(name, short string, act func(admin.Jobs, context.Context, string) (admin.Job, error)) *cobra.Command {
		return n.action(a, &cobra.Command{
			Use:   name,
			Short: short,
			Long:  short + ". A server that runs it notices within two seconds. Exit 1 when it has ended, or when there is none with the ID.",
		}, func(ctx context.Context, k *sdk.Client, id string) (admin.Job, error) {
			return act(admin.New(k).Jobs, ctx, id)
		})
	}
	return group(&cobra.Command{
		Use:   "job",
		Short: "Show, pause, resume and stop changes of sets of tasks",
		Long: `A job changes the tasks that a filter selects: cancel, redrive, reschedule, expire and delete with --where make one. It runs on
the servers, and goes on whatever becomes of the command that made it. An identity sees its own jobs; admin:* sees all.`,
	},
		n.listCommand(a, &cobra.Command{
			Short: "List jobs, newest first",
			Long:  `Lists the jobs of the last 30 days, at most 1,000 of those that have ended, newest first. With -o json, an array.`,
		}, nil),
		n.getCommand(a, &cobra.Command{Short: "Show a job, and up to 1,000 tasks that it could not change"}),
		control("pause", "Make a job wait", admin.Jobs.Pause),
		control("resume", "Let a paused job go on", admin.Jobs.Resume),
		control("stop", "End a job; what it has changed stays changed", admin.Jobs.Stop))
}
