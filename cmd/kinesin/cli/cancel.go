package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// cancelObject is the result of a cancel in JSON.
type cancelObject struct {
	ID      string            `json:"id"`
	Outcome sdk.CancelOutcome `json:"outcome,omitempty"`
	State   sdk.State         `json:"state,omitempty"`
	refusal
}

func (a *app) cancelCommand() *cobra.Command {
	return a.withSets(a.calling(&cobra.Command{
		Use:   "cancel ID… | {--where FILTER | --all}",
		Short: "Cancel tasks, or stop running ones",
		Long: `Cancels tasks and prints the outcome of each, in order:

  cancelled    it does not start, or not again
  cancelling   it runs, and its worker was asked to stop it

Exit 1 when a task has ended, is on the queue of a deliver lambda or about to be, or when there is no task with an ID.

With --where it cancels the tasks that a filter selects, by a job on the server, and prints the job when it has ended: exit 1
when some were refused. docs/sets.md describes filters and jobs.`,
		Args: some("ID"),
	}, func(ctx context.Context, k *sdk.Client, ids []string) error {
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.CancelResult, error) { return k.CancelMany(ctx, some) })
		out := a.results(len(ids) > 1)
		for i, r := range all { // also with an error: these are done
			o := cancelObject{ids[i], r.Outcome, r.State, refusalOf(r.Err)}
			if err := out.add(ids[i], r.Err, o, func() error { return a.printLine(r.Outcome) }); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		return out.end()
	}), sdk.JobCancel)
}
