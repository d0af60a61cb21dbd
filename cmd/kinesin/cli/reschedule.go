package cli

import (
	"context"
	"math"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) rescheduleCommand() *cobra.Command {
	var by keyFlags
	var when whenFlags
	var ifSeq uint64
	c := &cobra.Command{
		Use: "reschedule {ID… | --lambda L --key K} {--in D | --at TIME}\n" +
			"  kinesin reschedule {--where FILTER | --all} [--lambda L] {--by D | --spread D | --at TIME}",
		Short: "Move waiting tasks to another time",
		Long: `Moves tasks that no worker has to another time and prints "STATE, due TIME" for each, in order. A time in the past means
now. Attempts that failed still count.

Exit 1 when a worker has the task, when it has ended, or when there is none with an ID.

With --where it moves the live tasks that a filter selects, by a job on the server. docs/sets.md describes filters and jobs.`,
		Example: `  kinesin reschedule k3… --in 2h
  kinesin reschedule --lambda greet --key reminder-42 --at 2027-02-01T09:00:00+01:00
  kinesin reschedule --lambda greet --where 'due<+1h' --spread 2h`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	c.Flags().Var(durationValue{d: &when.in, min: math.MinInt64}, "in", "due after `D` from now: 90s, 3d, 1h30m")
	c.Flags().StringVar(&when.at, "at", "", "due at this `TIME`, RFC 3339")
	return a.withSets(a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		option, err := when.option(c)
		if err != nil {
			return err
		}
		ids := by.names(args)
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.ChangeResult, error) {
			return k.Reschedule(ctx, some, option, sdk.IfSeq(ifSeq))
		})
		note := when.note()
		if err == nil && note != "" && !a.json() {
			a.note("%s", note)
		}
		return a.printChanges(ids, all, note, err)
	}), admin.JobReschedule)
}
