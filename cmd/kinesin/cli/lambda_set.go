package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

func (a *app) lambdaSetCommand() *cobra.Command {
	var l admin.Lambda
	var o admin.LambdaUpdateOptions
	c := &cobra.Command{
		Use:     "set NAME",
		Aliases: []string{"update"},
		Short:   "Change a lambda's settings",
		Long: `Changes the given settings and prints all of them. Those of --reset get their defaults again. They apply to waiting tasks too. For a registered lambda they hold until its
registration (its module call in Terraform) changes.

Shards can only grow. New ones are used six minutes later, by new tasks without a key; the output says when. Mode and priorities
are fixed at creation.`,
		Example: `  kinesin lambda set greet --max-attempts 3 --backoff 5s..1m
  kinesin lambda set greet --shards 8
  kinesin lambda set greet --priority-weights high=8,normal=3,low=1
  kinesin lambda set greet --limit-key-concurrency 3
  kinesin lambda set greet --reset limit_key_concurrency,breaker`,
		Args: one("NAME"), ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	lambdaFlags(f, &l)
	f.Var(intValue{&l.Shards, 1, task.ShardsMax}, "shards", fmt.Sprintf("partitions per priority: more than now, at most %d", task.ShardsMax))
	resetFlag(f, &o.Reset, api.Changeable(&kinesinv1.UpdateLambdaRequest{})...)
	fixed := []string{"mode", "priorities"}
	for _, name := range fixed {
		f.String(name, "", "")
		f.Lookup(name).Hidden = true
	}
	return a.calling(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		for _, name := range fixed {
			if f.Changed(name) {
				return usagef("--%s is fixed at creation: create another lambda, or delete this one first", name)
			}
		}
		if err := wantChange(c); err != nil {
			return err
		}
		l.Name = args[0]
		if err := checkLambda(&l); err != nil {
			return err
		}
		if failures, window := f.Changed("breaker-failures"), f.Changed("breaker-window"); failures != window { // they change together
			now, err := admin.New(k).Lambdas.Get(ctx, l.Name)
			if err != nil {
				return err
			}
			l.Breaker.Failures, l.Breaker.Window = cmp.Or(l.Breaker.Failures, now.Breaker.Failures), cmp.Or(l.Breaker.Window, now.Breaker.Window)
		}
		changed, err := admin.New(k).Lambdas.Update(ctx, l, o)
		if err != nil {
			return err
		}
		if changed.Registered && !changed.Withdrawn {
			a.note("lambda %s is registered: this holds until its registration changes (its module call in Terraform)", changed.Name)
		}
		return a.lambdas().show(a, wirecopy.To[kinesinv1.Lambda](&changed))
	})
}
