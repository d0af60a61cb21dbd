package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) redriveCommand() *cobra.Command {
	var by keyFlags
	var ifSeq uint64
	var force bool
	var payload newPayloadFlags
	c := &cobra.Command{
		Use: "redrive ID… | --lambda L --key K | {--where FILTER | --all} [--lambda L] [--force]\n" +
			"  kinesin redrive {ID | --lambda L --key K} {--payload TEXT | --payload-file FILE} [--force]",
		Short: "Have ended tasks start anew",
		Long: `Has tasks start anew that ended as dead, fatal_failure, cancelled, expired or dropped, under the same ids, and prints "STATE,
due TIME" for each, in order. Their attempts count anew; their history stays.

Exit 1 when a task has not ended, ended as success or delivered (without --force), when its key was used again, or when there
is none with an ID.

With --where it redrives the tasks that a filter selects, by a job on the server. docs/sets.md describes filters and jobs.`,
	}
	by.add(c)
	ifSeqFlag(c, &ifSeq)
	c.Flags().BoolVar(&force, "force", false, "also tasks that ended as success or delivered")
	payload.add(c)
	return a.withSets(a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		other, err := payload.read(a, c)
		if err != nil {
			return err
		}
		if other != nil && len(ids) != 1 {
			return usagef("--payload and --payload-file are for one task, and not for %d", len(ids))
		}
		opts := []sdk.ChangeOption{sdk.IfSeq(ifSeq)}
		if force {
			opts = append(opts, sdk.Force())
		}
		if other != nil {
			opts = append(opts, sdk.WithNewPayload(other))
		}
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.ChangeResult, error) { return k.Redrive(ctx, some, opts...) })
		return a.printChanges(ids, all, "", err)
	}), admin.JobRedrive)
}
