package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) lambdaUpdateCommand() *cobra.Command {
	var l sdk.LambdaInfo
	c := &cobra.Command{
		Use:   "update NAME",
		Short: "Change a lambda's settings",
		Long: `Changes the settings that are given and prints all of them. They apply to its waiting tasks too.
Those of a registered lambda hold until its registration (its module call in Terraform) changes.

Mode, priorities and shards are fixed at creation.`,
		Example: `  kinesin lambda update greet --max-attempts 3 --backoff 5s..1m`,
		Args:    oneName,
	}
	f := c.Flags()
	settingsOf(f, &l)
	fixed := []string{"mode", "priorities", "shards"}
	for _, name := range fixed {
		f.String(name, "", "")
		f.Lookup(name).Hidden = true
	}
	c.RunE = does(func(ctx context.Context, args []string) error {
		for _, name := range fixed {
			if f.Changed(name) {
				return usagef("--%s is fixed at creation: create another lambda, or delete this one first", name)
			}
		}
		if l.MaxAttempts == 0 && l.Timeout == 0 && l.BackoffMax == 0 && l.Retention == 0 {
			return usagef("nothing to change: want any of --max-attempts, --timeout, --backoff, --retention")
		}
		l.Name = args[0]
		if err := checkLambda(f, &l); err != nil {
			return err
		}
		return a.withClient(func(k *sdk.Client) error {
			changed, err := k.UpdateLambda(ctx, l)
			if err != nil {
				return err
			}
			if changed.Registered && !changed.Withdrawn {
				a.note("lambda %s is registered: this holds until its registration changes (its module call in Terraform)", changed.Name)
			}
			return a.showLambda(&changed)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(f)
	a.serverFlag(f)
	return c
}
