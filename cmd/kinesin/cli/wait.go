package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) waitCommand() *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "wait ID… [--timeout D]",
		Short: "Wait until tasks have ended",
		Long: `Waits until all tasks have ended, then prints "ID STATE" for each, in order; with -o json what get prints.

Exit 0 when all ended in success or are delivered; 1 when one ended otherwise, an ID names no task, or the timeout passed:
then the states it last saw are printed all the same. A restart of the server does not disturb it.`,
		Example: `  kinesin wait "$(kinesin schedule greet --in 2s)" --timeout 1m`,
		Args:    some("ID"),
	}
	c.Flags().Var(durationValue{d: &timeout}, "timeout", "give up after `D`; forever when not set")
	c.RunE = does(func(ctx context.Context, ids []string) error {
		limit := c.Flags().Changed("timeout")
		return a.withClient(func(k *sdk.Client) error { return a.wait(ctx, k, ids, timeout, limit) })
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func (a *app) wait(ctx context.Context, k *sdk.Client, ids []string, timeout time.Duration, limit bool) error {
	bounded := ctx
	if limit {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	results, err := waitAll(bounded, k, idsOf(ids))
	timedOut := errors.Is(err, context.DeadlineExceeded) || bounded.Err() != nil && ctx.Err() == nil
	if timedOut {
		results, err = getAll(ctx, k, idsOf(ids), nil)
	}
	if err != nil {
		return err
	}
	failed := a.printWaited(ids, results)
	if err := verdict(results, timeout, timedOut); err != nil {
		return err
	}
	return failed
}

func waitAll(ctx context.Context, k *sdk.Client, ids []sdk.ID) ([]sdk.GetResult, error) {
	var all []sdk.GetResult
	for len(ids) > 0 {
		n := min(len(ids), idsPerCallMax)
		results, err := k.Wait(ctx, ids[:n]...)
		if err != nil {
			return all, err
		}
		all, ids = append(all, results...), ids[n:]
	}
	return all, nil
}

func (a *app) printWaited(ids []string, results []sdk.GetResult) error {
	if a.json() {
		return a.printResults(ids, results, false)
	}
	var failed error
	for i := range results {
		if results[i].Err != nil {
			failed = errReported
			a.note("%s: %v", short(ids[i]), results[i].Err)
			continue
		}
		if _, err := fmt.Fprintln(a.Stdout, ids[i], results[i].Task.State); err != nil {
			return err
		}
	}
	return failed
}

// verdict is why the command failed, beyond ids that name no task.
func verdict(results []sdk.GetResult, timeout time.Duration, timedOut bool) error {
	live, bad := 0, 0
	for i := range results {
		switch s := results[i].Task.State; {
		case results[i].Err != nil:
		case !s.IsEnd():
			live++
		case s != sdk.StateSuccess && s != sdk.StateDelivered:
			bad++
		}
	}
	switch {
	case timedOut && live > 0:
		return fmt.Errorf("timed out after %v: %d of %d tasks have not ended", timeout, live, len(results))
	case bad > 0:
		return fmt.Errorf("%d of %d tasks did not end in success", bad, len(results))
	}
	return nil
}
