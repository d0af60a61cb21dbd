package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) getCommand() *cobra.Command {
	var withPayload bool
	var by keyFlags
	c := &cobra.Command{
		Use:     "get ID… | --lambda L --key K",
		Aliases: []string{"show"},
		Short:   "Show tasks and their attempts",
		Long: `Shows tasks: state, times, lateness (first start − due time) and the latest attempts, each with start, end, worker, outcome
and error.

With -o json, one ID gives an object and several give an array. Exit 1 when there is no task with an ID.`,
		Example: `  kinesin get k1…
  kinesin get k1… -o json | jq -r .state`,
	}
	by.add(c)
	c.Flags().BoolVar(&withPayload, "payload", false, "show payloads too")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		ids := by.names(args)
		var opts []sdk.GetOption
		if withPayload {
			opts = append(opts, sdk.WithPayload())
		}
		results, err := inParts(ids, func(some []sdk.ID) ([]sdk.GetResult, error) { return k.GetMany(ctx, some, opts...) })
		if err != nil {
			return err
		}
		return a.printTasks(ids, results, withPayload)
	})
}

// printTasks prints tasks on stdout and errors on stderr. Its error says only that there was one.
func (a *app) printTasks(ids []string, all []sdk.GetResult, withPayload bool) error {
	out := a.results(len(ids) > 1)
	for i := range all {
		if err := out.addTask(ids[i], &all[i], i > 0, withPayload); err != nil {
			return err
		}
	}
	return out.end()
}

// addTask prints a task. next says that another one is above it.
func (r *results) addTask(id string, result *sdk.GetResult, next, withPayload bool) error {
	if result.Err != nil {
		var o any // none for one ID
		if r.several {
			o = missingObject{ID: id, refusal: refusalOf(result.Err)}
		}
		return r.add(id, result.Err, o, nil)
	}
	o := objectOf(&result.Task)
	if withPayload {
		o = o.withPayload(result.Task.Payload)
	}
	return r.add(id, nil, o, func() error {
		if r.output == formatName {
			return r.printLine(o.ID)
		}
		if next {
			fmt.Fprintln(r.Stdout)
		}
		return printTask(r.Stdout, &o)
	})
}
