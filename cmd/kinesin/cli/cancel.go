package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// cancelObject is the outcome of a cancel in JSON results.
type cancelObject struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome,omitempty"`
	State   string `json:"state,omitempty"`
	Error   string `json:"error,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func (a *app) cancelCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel ID…",
		Short: "Make sure that tasks do not start, or ask them to stop",
		Long: `Cancels tasks and prints the outcome of each, in order:

  cancelled    it never starts, or not again
  cancelling   it runs, and its worker was asked to stop it

Exit 1 when a task had ended before, is on the queue of a deliver lambda or about to be, or an ID names no task.`,
		Args: some("ID"),
	}
	c.RunE = does(func(ctx context.Context, ids []string) error {
		return a.withClient(func(k *sdk.Client) error { return a.cancel(ctx, k, ids) }, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func (a *app) cancel(ctx context.Context, k *sdk.Client, ids []string) error {
	array := arrayWriter{w: a.Stdout}
	var failed error
	for rest := ids; len(rest) > 0; {
		n := min(len(rest), idsPerCallMax)
		results, err := k.CancelMany(ctx, idsOf(rest[:n]))
		if err != nil {
			return err
		}
		for i, r := range results {
			if r.Err != nil {
				failed = errReported
				a.note("%s: %v", short(rest[i]), r.Err)
			}
			if err := a.printCancel(&array, len(ids) > 1, rest[i], r); err != nil {
				return err
			}
		}
		rest = rest[n:]
	}
	if a.json() && len(ids) > 1 {
		return errors.Join(failed, array.end())
	}
	return failed
}

func (a *app) printCancel(array *arrayWriter, several bool, id string, r sdk.CancelResult) error {
	o := cancelObject{ID: id, Outcome: string(r.Outcome), State: string(r.State)}
	if r.Err != nil {
		o.Error, o.Reason = r.Err.Error(), reasonOf(r.Err)
	}
	switch {
	case a.json() && several:
		return array.add(o)
	case a.json():
		return printJSON(a.Stdout, o)
	case r.Err == nil:
		_, err := fmt.Fprintln(a.Stdout, o.Outcome)
		return err
	}
	return nil
}
