package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
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
		c := over(k)
		timed := ask[kinesinv1.GetLambdaRequest, kinesinv1.GetLambdaResponse]
		if live {
			timed = askSet
		}
		r, err := timed(ctx, c, "get lambda", c.Lambdas.GetLambda, &kinesinv1.GetLambdaRequest{Name: args[0], Live: live, Count: count})
		if err != nil {
			return err
		}
		l := r.GetLambda()
		if live && l.GetLive() == nil {
			a.note("no live figures: the server is older than this program, or you may read only some collections of %s", l.GetName())
		}
		if a.output == formatJSON || a.output == formatName {
			return a.lambdas().show(a, l)
		}
		quotas, err := ask(ctx, c, "get quotas", c.Quotas.GetQuotas, &kinesinv1.GetQuotasRequest{Lambda: args[0]})
		if err != nil && !errors.Is(err, sdk.ErrUnsupported) { // of an older server
			return err
		}
		return a.printLambdaWith(l, quotas.GetQuotas())
	})
}
