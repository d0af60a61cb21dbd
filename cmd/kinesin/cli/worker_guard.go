package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/cmd/kinesin/executor"
)

const guardName = "worker-guard"

// guardCommand is the guard process of a worker. No person calls it.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use:    guardName,
		Short:  "Kill what a dead or stopped worker left running (started by worker)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE:   does(func(context.Context, []string) error { return executor.RunGuard(a.Stdin) }),
	}
}
