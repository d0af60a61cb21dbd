package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
)

// waitSlack is how much earlier than the caller a server may see a timeout.
const waitSlack = 100 * time.Millisecond

func (a *app) waitCommand() *cobra.Command {
	var timeout time.Duration
	var by keyFlags
	c := &cobra.Command{
		Use:   "wait ID… | --lambda L --key K [--timeout D]",
		Short: "Wait until tasks have ended",
		Long: `Waits until all tasks have ended, then prints "ID STATE" for each, in order, with the result if there is one; with -o json, the
same as get. A restart of the server does not interrupt it.

Exit 0 when all tasks ended as success or delivered. Exit 1 when one ended otherwise, when there is none with an ID, and on a
timeout, after printing the latest states.`,
		Example: `  kinesin wait "$(kinesin schedule greet --in 2s)" --timeout 1m`,
	}
	by.add(c)
	c.Flags().Var(durationValue{d: &timeout}, "timeout", "give up after `D`; wait forever when not set")
	return a.callingWith(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		bounded, cancel := ctx, func() {}
		if c.Flags().Changed("timeout") {
			bounded, cancel = context.WithTimeout(ctx, timeout)
		}
		defer cancel()
		stop := a.waiting("waiting for %d tasks to end", len(ids))
		all, err := inParts(ids, func(some []sdk.ID) ([]sdk.GetResult, error) { return k.Wait(bounded, some...) })
		stop()
		timedOut := errors.Is(err, context.DeadlineExceeded) || ctx.Err() == nil && (bounded.Err() != nil || err != nil && isNearlyOver(bounded))
		if timedOut {
			all, err = inParts(ids, func(some []sdk.ID) ([]sdk.GetResult, error) { return k.GetMany(ctx, some) })
		}
		if err != nil {
			return err
		}
		failed := a.printStates(over(k), ids, all)
		if err := notSuccessful(all, timeout, timedOut); err != nil {
			return err
		}
		return failed
	})
}

// isNearlyOver reports whether the time of a call is as good as over: a server ends a call by its own clock, which may be a
// moment earlier.
func isNearlyOver(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return bounded && clock.Until(clock.Real(), deadline) < waitSlack
}

func (a *app) printStates(c *calls, ids []string, all []sdk.GetResult) error {
	if a.json() {
		return a.printTasks(c, ids, all, false)
	}
	out := a.results(len(ids) > 1)
	for i := range all {
		state := func() error {
			t := c.Task(&all[i])
			return a.printLine(strings.TrimRight(t.GetId()+" "+t.GetState()+" "+resultText(t), " "))
		}
		if err := out.add(ids[i], all[i].Err, nil, state); err != nil {
			return err
		}
	}
	return out.end()
}

// notSuccessful returns why the command failed, apart from ids without a task.
func notSuccessful(all []sdk.GetResult, timeout time.Duration, timedOut bool) error {
	live, bad := 0, 0
	for i := range all {
		switch s := all[i].Task.State; {
		case all[i].Err != nil:
		case !s.IsEnd():
			live++
		case s != sdk.StateSuccess && s != sdk.StateDelivered:
			bad++
		}
	}
	switch {
	case timedOut && live > 0:
		return fmt.Errorf("timed out after %v: %d of %d tasks have not ended", timeout, live, len(all))
	case bad > 0:
		return fmt.Errorf("%d of %d tasks did not end in success", bad, len(all))
	}
	return nil
}
