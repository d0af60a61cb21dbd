package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) lambdaGetCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "get NAME",
		Short: "Show a lambda's settings",
		Args:  one("NAME"), ValidArgsFunction: a.completeOneLambda,
	}, func(ctx context.Context, k *sdk.Client, args []string) error {
		l, err := k.GetLambda(ctx, args[0])
		if err != nil {
			return err
		}
		return a.printLambda(&l, nil)
	})
}
