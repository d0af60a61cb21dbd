package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) lambdaGetCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "get NAME",
		Short: "Show a lambda's settings",
		Args:  oneName,
	}
	c.RunE = does(func(ctx context.Context, args []string) error {
		return a.withClient(func(k *sdk.Client) error {
			l, err := k.GetLambda(ctx, args[0])
			if err != nil {
				return err
			}
			return a.showLambda(&l)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func (a *app) showLambda(l *sdk.LambdaInfo) error {
	if a.json() {
		return printJSON(a.Stdout, lambdaObjectOf(l))
	}
	return printLambda(a.Stdout, l)
}
