package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) lambdaCreateCommand() *cobra.Command {
	var l admin.Lambda
	var priorities string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a lambda",
		Long: `Creates a lambda and prints its settings. One that exists is refused (exit 1): set changes it, and kinesin apply creates what is
missing.

NAME is 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-'. Attempts, timeout, backoff, poison bound,
start-within, priority weights, limits by key, retry share and breaker do not apply to --mode deliver.`,
		Example: `  kinesin lambda create greet
  kinesin lambda create report --priorities urgent,bulk --max-attempts 3 --timeout 1h --backoff 10s..30m
  kinesin lambda create invoices --mode deliver`,
		Args: one("NAME"),
	}
	f := c.Flags()
	l.Mode = admin.ModeManaged
	f.Var(choiceValue{(*string)(&l.Mode), wordsOf("Lambda.mode")}, "mode", helpOf("Lambda.mode"))
	f.StringVar(&priorities, "priorities", "", helpOf("Lambda.priorities"))
	f.Var(intValue{&l.Shards, 1, task.ShardsMax}, "shards", helpOf("Lambda.shards"))
	lambdaFlags(f, &l)
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		l.Name = args[0]
		if f.Changed("priorities") {
			l.Priorities = splitList(priorities)
			if len(l.Priorities) == 0 {
				return usagef("--priorities: want names separated by commas, highest first, such as high,normal,low")
			}
		}
		if err := checkLambda(&l); err != nil {
			return err
		}
		created, duplicate, err := admin.New(k).Lambdas.Create(ctx, l)
		if err != nil {
			return err
		}
		if duplicate {
			return fmt.Errorf("lambda %s exists already, with these settings; kinesin lambda set %s changes them", created.Name, created.Name)
		}
		return a.lambdas().show(a, wirecopy.To[kinesinv1.Lambda](&created))
	})
}

// splitList splits names at commas and drops the spaces around them.
func splitList(text string) []string {
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		if name := strings.TrimSpace(part); name != "" {
			names = append(names, name)
		}
	}
	return names
}
