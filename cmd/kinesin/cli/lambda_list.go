package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) lambdaListCommand() *cobra.Command {
	return a.calling(&cobra.Command{
		Use:   "list",
		Short: "List all lambdas",
		Args:  cobra.NoArgs,
	}, func(ctx context.Context, k *sdk.Client, _ []string) error {
		all, err := k.ListLambdas(ctx)
		if err != nil {
			return err
		}
		return a.printLambdas(all)
	})
}

func (a *app) printLambdas(all []sdk.LambdaInfo) error {
	titles := []string{"NAME", "MODE", "PRIORITIES", "SHARDS", "MAX ATTEMPTS", "TIMEOUT", "BACKOFF", "RETENTION"}
	err := printList(a, objectsOf(all, lambdaObjectOf), "there are no lambdas; create one with `kinesin lambda create NAME`", titles,
		func(i int, _ *lambdaObject) []string {
			l := &all[i]
			attempts, timeout, backoff := "-", "-", "-" // deliver lambdas have none
			if l.Mode != sdk.ModeDeliver {
				attempts, timeout, backoff = strconv.Itoa(l.MaxAttempts), formatDuration(l.Timeout), formatRange(l.BackoffMin, l.BackoffMax)
			}
			return []string{l.Name, l.Mode, strings.Join(l.Priorities, ","), strconv.Itoa(l.Shards), attempts, timeout, backoff, formatDuration(l.Retention)}
		})
	if err != nil || a.json() {
		return err
	}
	for _, l := range all {
		if l.RegistrationRefused != "" {
			a.note("the registration of %s is refused: `kinesin lambda get %s` says why", l.Name, l.Name)
		}
	}
	return nil
}
