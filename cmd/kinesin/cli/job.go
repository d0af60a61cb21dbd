package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

func (a *app) jobCommand() *cobra.Command {
	n := a.jobs()
	control := func(action, short string) *cobra.Command {
		return n.action(a, &cobra.Command{
			Use:   action,
			Short: short,
			Long:  short + ". A server that runs it notices within two seconds. Exit 1 when it has ended, or when there is none with the ID.",
		}, func(ctx context.Context, c *calls, id string) (*kinesinv1.Job, error) {
			r, err := ask(ctx, c, action+" job", c.Jobs.ControlJob, &kinesinv1.ControlJobRequest{Id: id, Action: action})
			return r.GetJob(), err
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
			Long:  `Lists the jobs of the last 30 days, at most 1,000 of those that have ended, newest first.`,
		}, nil),
		n.getCommand(a, &cobra.Command{Short: "Show a job, and up to 1,000 tasks that it could not change"}),
		control("pause", "Make a job wait"),
		control("resume", "Let a paused job go on"),
		control("stop", "End a job; what it has changed stays changed"))
}
