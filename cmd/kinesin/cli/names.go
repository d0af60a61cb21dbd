package cli

import (
	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// keyFlags name a task by its lambda and key, instead of by its id.
type keyFlags struct{ lambda, key string }

func (k *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&k.lambda, "lambda", "", "with --key: the `LAMBDA` of the task")
	c.Flags().StringVar(&k.key, "key", "", "the newest task of --lambda with this idempotency `KEY`, instead of an ID")
	c.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case !cmd.Flags().Changed("key") && !cmd.Flags().Changed("lambda"):
			return some("ID")(cmd, args)
		case k.lambda == "" || k.key == "":
			return usagef("a task is named by --lambda and --key together")
		case len(args) > 0:
			return usagef("--lambda and --key name one task: leave the IDs out")
		}
		return nil
	}
}

// names returns the ids of the command line, or that of the key.
func (k *keyFlags) names(args []string) []string {
	if k.key == "" {
		return args
	}
	return []string{string(sdk.ByKey(k.lambda, k.key))}
}
