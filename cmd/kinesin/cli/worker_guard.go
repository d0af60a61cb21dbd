package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
)

const guardName = "worker-guard"

// guardCommand runs the guard process that worker starts.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardName + " OUTCOMES",
		Short:  "Kill the commands of a dead or stopped worker (started by worker)",
		Hidden: true,
		Args:   one("OUTCOMES"),
		RunE: does(func(_ context.Context, args []string) error {
			return errors.Join(executor.RunGuard(a.Stdin), removeOutcomes(args[0]))
		}),
	}
}
