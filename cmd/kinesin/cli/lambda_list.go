package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) lambdaListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List all lambdas",
		Args:  cobra.NoArgs,
	}
	c.RunE = does(func(ctx context.Context, _ []string) error {
		return a.withClient(func(k *sdk.Client) error {
			all, err := k.ListLambdas(ctx)
			if err != nil {
				return err
			}
			return a.printLambdas(all)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func (a *app) printLambdas(all []sdk.LambdaInfo) error {
	if a.json() {
		objects := make([]lambdaObject, len(all))
		for i := range all {
			objects[i] = lambdaObjectOf(&all[i])
		}
		return printJSON(a.Stdout, objects)
	}
	if len(all) == 0 {
		a.note("there are no lambdas; create one with `kinesin lambda create NAME`")
		return nil
	}
	t := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tMODE\tPRIORITIES\tSHARDS\tMAX ATTEMPTS\tTIMEOUT\tBACKOFF\tRETENTION")
	for _, l := range all {
		attempts, timeout, backoff := "-", "-", "-" // which are not for deliver lambdas
		if l.Mode != sdk.ModeDeliver {
			attempts, timeout = strconv.Itoa(l.MaxAttempts), formatDuration(l.Timeout)
			backoff = formatDuration(l.BackoffMin) + ".." + formatDuration(l.BackoffMax)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", l.Name, l.Mode, strings.Join(l.Priorities, ","), l.Shards,
			attempts, timeout, backoff, formatDuration(l.Retention))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range all {
		if l.RegistrationRefused != "" {
			a.note("the registration of %s is refused: `kinesin lambda get %s` says why", l.Name, l.Name)
		}
	}
	return nil
}
