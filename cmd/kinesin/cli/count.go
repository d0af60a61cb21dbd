package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// countObject is the result of a count in JSON.
type countObject struct {
	Count int64 `json:"count"`
	Exact bool  `json:"exact"`
}

func (a *app) countCommand() *cobra.Command {
	var where string
	var exact bool
	c := &cobra.Command{
		Use:   "count [LAMBDA] [--where FILTER] [--exact]",
		Short: "Count tasks",
		Long: `Counts the tasks that a filter selects, of those that you may read. With DynamoDB, where each row that is read costs money, a count
is an estimate unless --exact asks for more; the text begins with "about" then. docs/sets.md describes filters.`,
		Example: `  kinesin count --where 'state=dead and error~"timeout"'
  kinesin count greet --where 'due<+1h' -o json`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	f.StringVar(&where, "where", "", whereUsage)
	f.BoolVar(&exact, "exact", false, "count each task, whatever it costs")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		lambda := first(args)
		if err := checkFilter(where); err != nil {
			return err
		}
		filter, err := ofLambda(lambda, where)
		if err != nil {
			return err
		}
		if err := wantLambda(ctx, k, lambda); err != nil {
			return err
		}
		stop := a.waiting("counting")
		r, err := k.Count(ctx, filter, exact)
		stop()
		if err != nil {
			return err
		}
		about := ""
		if !r.Exact {
			about = "about "
		}
		return a.print(countObject{r.Count, r.Exact}, "%s%d", about, r.Count)
	})
}
