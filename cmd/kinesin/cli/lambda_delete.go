package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

type deletedObject struct {
	Name    string `json:"name"`
	Dropped int64  `json:"dropped"`
}

func (a *app) lambdaDeleteCommand() *cobra.Command {
	var drop bool
	c := &cobra.Command{
		Use:   "delete NAME [--drop]",
		Short: "Delete a lambda",
		Long: `Deletes a lambda. While it has tasks that have not ended, or may have some in the inbound queue, this is refused (exit 1), unless --drop says
to drop them. That takes as long as there are tasks, a thousand or so a second; interrupted it has dropped some, and two minutes later the
lambda takes tasks again. What comes out of the inbound queue later is dropped too, and not counted.

A lambda that Terraform registered goes with its module call and is not deleted here (exit 1), unless that is gone already.`,
		Args: oneName,
	}
	c.Flags().BoolVar(&drop, "drop", false, "drop its tasks that have not ended")
	c.RunE = does(func(ctx context.Context, args []string) error {
		return a.withClient(func(k *sdk.Client) error {
			dropped, err := k.DeleteLambda(ctx, args[0], drop)
			if dropped > 0 && err != nil {
				a.note("dropped %d tasks so far; delete it again to go on", dropped)
			}
			if !drop && errors.Is(err, sdk.ErrInUse) {
				return fmt.Errorf("%w; --drop drops them", err)
			}
			if err != nil {
				return err
			}
			return a.printDeleted(deletedObject{Name: args[0], Dropped: dropped})
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func (a *app) printDeleted(o deletedObject) error {
	if a.json() {
		return printJSON(a.Stdout, o)
	}
	_, err := fmt.Fprintf(a.Stdout, "deleted %s, dropped %d tasks\n", o.Name, o.Dropped)
	return err
}
