package cli

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) jobCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "job",
		Short: "Show, pause, resume and stop changes of sets of tasks",
		Long: `A job changes the tasks that a filter selects: cancel, redrive, reschedule, expire and delete with --where make one. It runs on
the servers, and goes on whatever becomes of the command that made it. An identity sees its own jobs; admin:* sees all.`,
	}, a.jobListCommand(), a.jobShowCommand(),
		a.jobControlCommand("pause", "Make a job wait", (*sdk.Client).PauseJob),
		a.jobControlCommand("resume", "Let a paused job go on", (*sdk.Client).ResumeJob),
		a.jobControlCommand("stop", "End a job; what it has changed stays changed", (*sdk.Client).StopJob))
}

func (a *app) jobListCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Long:  `Lists the jobs of the last 30 days, at most 1,000 of those that have ended, newest first. With -o json, an array.`,
		Args:  cobra.NoArgs,
	}, func(ctx context.Context, k *sdk.Client, _ []string) error {
		all, err := k.Jobs(ctx)
		if err != nil {
			return err
		}
		titles := []string{"ID", "ACTION", "STATE", "CREATED", "OUTCOMES", "FILTER"}
		return printList(a, objectsOf(all, jobObjectOf), "", titles, func(i int, o *jobObject) []string {
			j := &all[i]
			return []string{j.ID, actionText(o), string(j.State), timeText(j.Created), outcomesText(j.Outcomes), cmp.Or(j.Where, rangeText(o.Backfill))}
		})
	})
}

func (a *app) jobShowCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "show ID",
		Short: "Show a job, and up to 1,000 tasks that it could not change",
		Args:  one("ID"),
	}, func(ctx context.Context, k *sdk.Client, args []string) error {
		j, err := k.GetJob(ctx, args[0])
		if err != nil {
			return err
		}
		return a.printJob(&j)
	})
}

func (a *app) jobControlCommand(name, short string, control func(*sdk.Client, context.Context, string) (sdk.Job, error)) *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   name + " ID",
		Short: short,
		Long:  short + ". A server that runs it notices within two seconds. Exit 1 when it has ended, or when there is none with the ID.",
		Args:  one("ID"),
	}, func(ctx context.Context, k *sdk.Client, args []string) error {
		j, err := control(k, ctx, args[0])
		if err != nil {
			return err
		}
		return a.print(jobObjectOf(&j), "%s", j.State)
	})
}
