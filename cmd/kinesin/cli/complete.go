package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
)

// completeWithin bounds how long a press of the Tab key waits for a server.
const completeWithin = time.Second

// completions tells the shell how to complete the flags of a command, and of all below it: those that name
// lambdas, and those that have one of a few values.
func (a *app) completions(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		if choice, is := f.Value.(choiceValue); is {
			complete = cobra.FixedCompletions(choice.choices, cobra.ShellCompDirectiveNoFileComp)
		} else if f.Name == "lambda" {
			complete = a.completeLambdas
		} else {
			return
		}
		if err := c.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // it is registered twice
		}
	})
	for _, below := range c.Commands() {
		a.completions(below)
	}
}

// completeLambdas completes the value of a flag that names lambdas, with commas between them.
func (a *app) completeLambdas(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	before := begun[:strings.LastIndexByte(begun, ',')+1]
	named := strings.Split(before, ",")
	var all []cobra.Completion
	for _, name := range a.lambdaNames(cmd) {
		if !slices.Contains(named, name) && strings.HasPrefix(before+name, begun) {
			all = append(all, before+name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeOneLambda completes the only argument of a command, which names a lambda.
func (a *app) completeOneLambda(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || strings.Contains(begun, ",") {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeLambdas(cmd, args, begun)
}

// completeGates completes the only argument of a command, which names a gate that has not ended.
func (a *app) completeGates(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	if len(args) == 0 {
		a.completing(cmd, func(ctx context.Context, k *sdk.Client) error {
			gates, err := k.Gates(ctx, "", false)
			for i := range gates {
				if strings.HasPrefix(gates[i].ID, begun) {
					all = append(all, cobra.CompletionWithDesc(gates[i].ID, gates[i].Reason))
				}
			}
			return err
		})
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completeCrons completes the only argument of a command, which names a cron.
func (a *app) completeCrons(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var all []cobra.Completion
	if len(args) == 0 {
		a.completing(cmd, func(ctx context.Context, k *sdk.Client) error {
			crons, err := k.Crons(ctx, "")
			for i := range crons {
				if strings.HasPrefix(crons[i].Name, begun) {
					all = append(all, cobra.CompletionWithDesc(crons[i].Name, crons[i].Schedule))
				}
			}
			return err
		})
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// lambdaNames returns the names of all lambdas that the caller may see.
func (a *app) lambdaNames(cmd *cobra.Command) (names []string) {
	a.completing(cmd, func(ctx context.Context, k *sdk.Client) error {
		lambdas, err := k.ListLambdas(ctx)
		for i := range lambdas {
			names = append(names, lambdas[i].Name)
		}
		return err
	})
	return names
}

// completing asks a server for what completes a word. Its errors are not told, and it does not wait for long:
// whoever presses Tab wants neither an error nor to wait.
func (a *app) completing(cmd *cobra.Command, ask func(ctx context.Context, k *sdk.Client) error) {
	if a.applySettings(cmd) != nil {
		return
	}
	k, err := a.client(sdk.WithTries(1))
	if err != nil {
		return
	}
	defer k.Close()
	ctx, cancel := clock.Within(cmd.Context(), clock.Real(), completeWithin)
	defer cancel()
	_ = ask(ctx, k)
}
