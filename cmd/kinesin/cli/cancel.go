package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) cancelCommand() *cobra.Command {
	var by keyFlags
	var ifSeq uint64
	c := &cobra.Command{
		Use:   "cancel ID… | --lambda L --key K | {--where FILTER | --all} [--lambda L]",
		Short: "Cancel tasks, or stop running ones",
		Long: `Cancels tasks and prints the outcome of each, in order:

  cancelled    it does not start, or not again
  cancelling   it runs, and its worker was asked to stop it

Exit 1 when a task has ended, is on the queue of a deliver lambda or about to be, or when there is no task with an ID.

With --where it cancels the tasks that a filter selects, by a job on the server, and prints the job when it has ended: exit 1
when some were refused. docs/sets.md describes filters and jobs.`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	return a.withSets(a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.CancelResult, error) { return k.CancelMany(ctx, some, sdk.IfSeq(ifSeq)) })
		out := a.results(len(ids) > 1)
		for i, r := range all { // also with an error: these are done
			o := &kinesinv1.CancelResult{Id: string(r.ID), Outcome: string(r.Outcome), State: string(r.State), Problem: problemOf(r.Err)}
			if out.several {
				o.Id = ids[i]
			}
			if err := out.add(ids[i], r.Err, o, func() error { return a.printLine(r.Outcome) }); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		return out.end()
	}), admin.JobCancel)
}
