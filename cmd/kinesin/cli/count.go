package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) countCommand() *cobra.Command {
	var where string
	var exact bool
	command := &cobra.Command{
		Use:   "count [LAMBDA] [--where FILTER] [--exact]",
		Short: "Count tasks",
		Long: `Counts the tasks that a filter selects, of those that you may read. With DynamoDB, where each row that is read costs money, a count
is an estimate unless --exact asks for more; the text begins with "about" then. docs/sets.md describes filters.`,
		Example: `  kinesin count --where 'state=dead and error~"timeout"'
  kinesin count greet --where 'due<+1h' -o json`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}
	f := command.Flags()
	f.StringVar(&where, "where", "", whereUsage)
	f.BoolVar(&exact, "exact", false, "count each task, whatever it costs")
	return a.watching(command, func(ctx context.Context, k *sdk.Client, args []string) error {
		c, lambda := over(k), first(args)
		if err := checkFilter(where); err != nil {
			return err
		}
		filter, err := ofLambda(lambda, where)
		if err != nil {
			return err
		}
		if err := wantLambda(ctx, c, lambda); err != nil {
			return err
		}
		stop := a.waiting("counting")
		r, err := askSet(ctx, c, "count", c.Tasks.Count, &kinesinv1.CountRequest{Where: filter, Exact: exact})
		stop()
		if err != nil {
			return err
		}
		about := ""
		if !r.GetExact() {
			about = "about "
		}
		return a.print(r, "%s%d", about, r.GetCount())
	})
}
