package cli

import (
	"context"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) statsCommand() *cobra.Command {
	return a.stats().listCommand(a, &cobra.Command{
		Use:   "stats [LAMBDA]",
		Short: "Show what lives and runs, by lambda",
		Long: `Shows the live tasks of each lambda that you may read, by state; how long the task that waits longest for its first start is
overdue; first starts, ends, failed attempts and lateness of the last minute, on the server that answers; how many tasks died in
the last hour and day, on all servers, both from the beginning of their first hour; and what that server knows to hold tasks back.
kinesin lambda get shows more of one lambda.

With DynamoDB the numbers of tasks are estimates, each marked by a ~.`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}, func(ctx context.Context, c *calls, args []string) (proto.Message, error) {
		return askSet(ctx, c, "stats", c.Tasks.Stats, &kinesinv1.StatsRequest{Lambda: first(args)})
	})
}

// tasksIn counts the live tasks in some states.
func tasksIn(s *kinesinv1.LambdaStats, states ...sdk.State) (n int64) {
	for _, state := range states {
		n += s.GetTasks()[string(state)]
	}
	return n
}
