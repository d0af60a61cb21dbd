package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) lambdaCreateCommand() *cobra.Command {
	var l sdk.LambdaInfo
	var priorities string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a lambda",
		Long: `Creates a lambda and prints its settings. The same again is fine; with other settings it is refused (exit 1).

NAME is 1 to 64 characters of a-z, A-Z, 0-9, '_' and '-'. Attempts, timeout and backoff are not for --mode deliver.`,
		Example: `  kinesin lambda create greet
  kinesin lambda create report --priorities urgent,bulk --max-attempts 3 --timeout 1h --backoff 10s..30m
  kinesin lambda create invoices --mode deliver`,
		Args: oneName,
	}
	f := c.Flags()
	l.Mode = task.Managed.String()
	f.Var(choiceValue{&l.Mode, []string{task.Managed.String(), task.Deliver.String()}}, "mode",
		"managed: workers of Kinesin run its tasks; deliver: they are put on a queue (SQS) when they are due, for consumers that need no Kinesin")
	f.StringVar(&priorities, "priorities", "", "priority classes, highest first; "+strings.Join(task.PrioritiesDefault(), ",")+" when not set")
	f.IntVar(&l.Shards, "shards", 0, "partitions per priority, which can grow later; when not set 4 with DynamoDB, else 1")
	settingsOf(f, &l)
	c.RunE = does(func(ctx context.Context, args []string) error {
		l.Name = args[0]
		if f.Changed("priorities") {
			l.Priorities = splitList(priorities)
			if len(l.Priorities) == 0 {
				return usagef("--priorities: want names separated by commas, highest first, such as high,normal,low")
			}
		}
		if err := checkLambda(f, &l); err != nil {
			return err
		}
		return a.withClient(func(k *sdk.Client) error { return a.createLambda(ctx, k, l) }, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(f)
	a.serverFlag(f)
	return c
}

// splitList reads names separated by commas; spaces around them do not count.
func splitList(text string) []string {
	var names []string
	for part := range strings.SplitSeq(text, ",") {
		if name := strings.TrimSpace(part); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (a *app) createLambda(ctx context.Context, k *sdk.Client, l sdk.LambdaInfo) error {
	created, existed, err := k.CreateLambda(ctx, l)
	if err != nil {
		return err
	}
	if a.json() {
		o := lambdaObjectOf(&created)
		o.Existed = &existed
		return printJSON(a.Stdout, o)
	}
	if existed {
		a.note("lambda %s was there already, with the same settings", created.Name)
	}
	return printLambda(a.Stdout, &created)
}
