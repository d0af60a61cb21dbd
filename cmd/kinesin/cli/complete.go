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
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// completeWithin bounds how long a press of the Tab key waits for a server.
const completeWithin = time.Second

// completions tells the shell how to complete the flags of a command, and of all below it: those that name
// lambdas or priorities, and those that have one of a few values.
func (a *app) completions(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		var complete cobra.CompletionFunc
		switch choice, is := f.Value.(choiceValue); {
		case is:
			complete = cobra.FixedCompletions(choice.choices, cobra.ShellCompDirectiveNoFileComp)
		case f.Name == "lambda":
			complete = a.completeLambdas
		case f.Name == "priority":
			complete = a.completePriorities
		default:
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
	for _, name := range a.lambdas().names(a, cmd, "") {
		if !slices.Contains(named, name) && strings.HasPrefix(before+name, begun) {
			all = append(all, before+name)
		}
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}

// completePriorities completes the value of a flag that names a priority: of the lambda that the command names, or of all.
func (a *app) completePriorities(cmd *cobra.Command, args []string, begun string) (all []cobra.Completion, d cobra.ShellCompDirective) {
	lambda := ""
	if f := cmd.Flags().Lookup("lambda"); f != nil {
		lambda = f.Value.String()
	} else if takesLambda(cmd) {
		lambda = first(args)
	}
	a.completing(cmd, func(ctx context.Context, k *sdk.Client) error {
		lambdas, err := admin.New(k).Lambdas.List(ctx)
		for i := range lambdas {
			for _, name := range lambdas[i].Priorities {
				if (lambda == "" || lambda == lambdas[i].Name) && strings.HasPrefix(name, begun) && !slices.Contains(all, name) {
					all = append(all, name)
				}
			}
		}
		return err
	})
	return all, cobra.ShellCompDirectiveNoFileComp
}

// takesLambda reports whether the argument of a command is a lambda.
func takesLambda(cmd *cobra.Command) bool {
	what := strings.Trim(strings.Join(strings.Fields(cmd.Use)[1:min(2, len(strings.Fields(cmd.Use)))], ""), "[]")
	return what == "LAMBDA"
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
