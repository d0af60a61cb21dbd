package cli

import (
	"context"
	"errors"

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
		quotas, err := k.Quotas(ctx, args[0])
		if err != nil && !errors.Is(err, sdk.ErrUnsupported) { // of an older server
			return err
		}
		return a.printLambdaWith(&l, quotas)
	})
}
