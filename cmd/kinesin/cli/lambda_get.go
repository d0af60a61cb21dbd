package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) lambdaGetCommand() *cobra.Command {
	live, count := true, false
	c := &cobra.Command{
		Use:   "get NAME [--count | --live=false]",
		Short: "Show a lambda's settings, and how it does now",
		Long: `Shows the settings and quotas of a lambda, then live figures: its workers, live tasks, rates and lateness of the last minute, the
messages in its queues, and what holds waiting tasks back.

Rates, lateness and numbers of tasks that are held back are those of the server that answers: where several servers
share a store, each has its part of the tasks. The rest is of all servers.`,
		Args: one("NAME"), ValidArgsFunction: a.lambdas().complete(a), Aliases: []string{"show"},
	}
	c.Flags().BoolVar(&live, "live", true, "also show live figures")
	c.Flags().BoolVar(&count, "count", false, "also count tasks that are due, and with DynamoDB estimate those of each state; reads tasks, there up to 20,000 rows")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if count && !live {
			return usagef("--count is about live figures: it does not go with --live=false")
		}
		l, err := getLambda(ctx, k, args[0], live, count)
		if err != nil {
			return err
		}
		quotas, err := admin.New(k).Quotas.List(ctx, args[0])
		if err != nil && !errors.Is(err, sdk.ErrUnsupported) { // of an older server
			return err
		}
		if live && l.Live == nil {
			a.note("no live figures: the server is older than this program, or you may read only some collections of %s", l.Name)
		}
		return a.printLambdaWith(&l, quotas)
	})
}

func getLambda(ctx context.Context, k *sdk.Client, name string, live, count bool) (admin.Lambda, error) {
	if live {
		return admin.New(k).Lambdas.Live(ctx, name, admin.LambdaLiveOptions{Count: count})
	}
	return admin.New(k).Lambdas.Get(ctx, name)
}
