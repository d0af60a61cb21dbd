package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/bench"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) benchGroupsCommand() *cobra.Command {
	b := bench.GroupsConfig{Groups: 10, Members: 1000, Slots: 1000, Ahead: 15 * time.Second}
	data := ""
	c := &cobra.Command{
		Use:   "groups",
		Short: "Run groups whose members are all due at once, and as many tasks without groups",
		Long: `Schedules groups of members that are all due --ahead from now, and then as many tasks without groups, on a server of its own in a
process of its own, or those that --server names. It measures how fast they end, and how long after the last member of a group its follow-up
starts.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.Var(intValue{n: &b.Groups, min: 1, max: 10_000}, "groups", "how many groups")
	f.Var(intValue{n: &b.Members, min: 1, max: sdk.GroupMembersMax}, "members", "members of each group")
	f.Var(intValue{n: &b.Slots, min: 1, max: 10_000}, "workers", "how many tasks run at a time")
	f.Var(durationValue{d: &b.Ahead, min: time.Second}, "ahead", "how far ahead they are due; all have to be scheduled by then")
	f.StringVar(&data, "data", "", "`DIR` for the data of the server, which is kept")
	a.serverFlag(f)
	return a.acting(c, func(ctx context.Context, _ []string) error {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return a.benchOn(ctx, data, f.Changed("server"), func(k *sdk.Client, _ dial.Clients) error {
			b.Client, b.Lambda = k, benchLambda("bench")
			b.Progress = func(text string) { a.note("%s", text) }
			r, err := bench.RunGroups(ctx, b)
			return a.printBench(&r, err)
		})
	})
}
