package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/bench"
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
		return a.benchOn(ctx, data, f.Changed("server"), func(ctx context.Context, k *sdk.Client, _ func(context.Context) (time.Duration, error)) error {
			b.Client, b.Lambda = k, benchLambda()
			b.Progress = func(text string) { a.note("%s", text) }
			r, err := bench.RunGroups(ctx, b)
			return a.printBench(&r, err)
		})
	})
}

func benchLambda() string { return "bench-" + strings.ToLower(rand.Text()[:10]) }

// benchReport is what a benchmark prints.
type benchReport interface{ Print(w io.Writer) error }

func (a *app) printBench(r benchReport, err error) error {
	switch {
	case err != nil:
		return err
	case a.json():
		return printJSON(a.Stdout, r)
	}
	return r.Print(a.Stdout)
}

// benchOn runs a benchmark on the server that is given, or on one of its own.
func (a *app) benchOn(ctx context.Context, data string, given bool, run func(ctx context.Context, k *sdk.Client, cpu func(context.Context) (time.Duration, error)) error) (err error) {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if !given {
		s, err := a.startServer(ctx, data)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.stop()) }()
		a.server = s.url
	}
	return a.withClient(func(k *sdk.Client) error {
		metrics, err := a.connections()
		if err != nil {
			return err
		}
		defer metrics.CloseIdle()
		return run(ctx, k, bench.ServerCPU(metrics.Calls, metrics.Base))
	})
}
