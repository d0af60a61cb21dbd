package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func (a *app) lambdaDeleteCommand() *cobra.Command {
	var drop bool
	c := &cobra.Command{
		Use:   "delete NAME [--drop]",
		Short: "Delete a lambda",
		Long: `Deletes a lambda. While it has live tasks, or may have some in the inbound queue, this is refused (exit 1), unless --drop is set.
Then its live tasks are dropped, about a thousand a second. When that is interrupted, some are dropped, and two minutes later the
lambda accepts tasks again. Tasks that leave the inbound queue later are dropped too, and not counted.

A lambda that Terraform registered is deleted with its module call, and not by this command (exit 1) unless the call is gone.`,
		Args: one("NAME"), ValidArgsFunction: a.lambdas().complete(a),
	}
	c.Flags().BoolVar(&drop, "drop", false, "drop its live tasks")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		dropped, err := admin.New(k).Lambdas.Delete(ctx, args[0], admin.LambdaDeleteOptions{DropTasks: drop})
		if dropped > 0 && err != nil {
			a.note("dropped %d tasks so far; run the command again to continue", dropped)
		}
		if !drop && errors.Is(err, sdk.ErrInUse) {
			return fmt.Errorf("%w; --drop drops them", err)
		}
		if err != nil {
			return err
		}
		return a.print(&kinesinv1.DeleteLambdaResponse{Dropped: dropped}, "%s lambda %s, dropped %d tasks", outcomeDeleted, args[0], dropped)
	})
}
