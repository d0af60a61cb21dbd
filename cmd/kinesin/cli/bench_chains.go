package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/bench"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) benchChainsCommand() *cobra.Command {
	b := bench.ChainsConfig{Chains: 10_000, Steps: 10, Slots: 100, Rate: 1000, Duration: 10 * time.Second, Ahead: 15 * time.Second}
	g := bench.GroupsConfig{Groups: 100, Members: 10_000, Ahead: 90 * time.Second}
	data := ""
	c := &cobra.Command{
		Use:   "chains",
		Short: "Run chains that all begin at once, as many tasks without chains, and groups",
		Long: `Schedules chains that all begin --ahead from now, then as many plain tasks, then chains that begin at random milliseconds, --rate steps a
second, and then groups as "bench groups" does, on a server of its own in a process of its own, or the one that --server names. It measures
steps a second, their ratio to that of plain tasks with the same worker, and how long after the end of a step the next one starts.`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.Var(intValue{n: &b.Chains, min: 1, max: 1_000_000}, "chains", "how many chains")
	f.Var(intValue{n: &b.Steps, min: 1, max: task.ChainDepthMax}, "steps", "tasks of each chain")
	f.Var(intValue{n: &b.Slots, min: 1, max: bench.SlotsMax}, "workers", "how many tasks run at a time")
	f.Var(intValue{n: &b.Rate, min: 1, max: 100_000}, "rate", "steps a second while lateness is measured")
	f.Var(durationValue{d: &b.Duration, min: time.Second}, "duration", "how long that is")
	f.Var(durationValue{d: &b.Ahead, min: time.Second}, "ahead", "how far ahead chains begin; all have to be scheduled by then")
	f.Var(intValue{n: &g.Groups, min: 0, max: 10_000}, "groups", "how many groups; 0: none")
	f.Var(intValue{n: &g.Members, min: 1, max: sdk.GroupMembersMax}, "members", "members of each group")
	f.Var(durationValue{d: &g.Ahead, min: time.Second}, "groups-ahead", "how far ahead members are due; all have to be scheduled by then")
	f.StringVar(&data, "data", "", "`DIR` for the data of the server, which is kept")
	a.serverFlag(f)
	return a.acting(c, func(ctx context.Context, _ []string) error {
		ctx, stop := untilSignal(ctx)
		defer stop()
		return a.benchOn(ctx, data, f.Changed("server"), func(k *sdk.Client, metrics dial.Clients) error {
			b.Client, b.Lambda, b.ServerCPU = k, benchLambda("bench"), bench.ServerCPU(metrics.Calls, metrics.Base)
			b.Progress = func(text string) { a.note("%s", text) }
			r, err := bench.RunChains(ctx, b)
			if err == nil && g.Groups > 0 {
				g.Client, g.Lambda, g.Slots, g.Progress = k, benchLambda("bench"), b.Slots, b.Progress
				var groups bench.GroupsReport
				groups, err = bench.RunGroups(ctx, g)
				r.Groups = &groups
			}
			return a.printBench(&r, err)
		})
	})
}
