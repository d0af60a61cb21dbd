package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
)

const guardName = "worker-guard"

// guardCommand runs the guard process that worker starts.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardName,
		Short:  "Kill the commands of a dead or stopped worker (started by worker)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   does(func(context.Context, []string) error { return executor.RunGuard(a.Stdin) }),
	}
}
