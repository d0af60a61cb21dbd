package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
)

// idsPerCallMax is the server's bound on the ids of one call.
const idsPerCallMax = 1000

func (a *app) getCommand() *cobra.Command {
	var withPayload bool
	c := &cobra.Command{
		Use:   "get ID…",
		Short: "Show tasks and their attempts",
		Long: `Shows tasks: state, times, lateness (first start − due) and the latest attempts, each with start, end, worker, outcome and error.

With -o json, one ID gives an object and several give an array. Exit 1 when an ID names no task.`,
		Example: `  kinesin get k1…
  kinesin get k1… -o json | jq -r .state`,
		Args: some("ID"),
	}
	c.Flags().BoolVar(&withPayload, "payload", false, "show the payload too")
	c.RunE = does(func(ctx context.Context, ids []string) error {
		var opts []sdk.GetOption
		if withPayload {
			opts = append(opts, sdk.WithPayload())
		}
		return a.withClient(func(k *sdk.Client) error {
			results, err := getAll(ctx, k, idsOf(ids), opts)
			if err != nil {
				return err
			}
			return a.printResults(ids, results, withPayload)
		}, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(c.Flags())
	a.serverFlag(c.Flags())
	return c
}

func idsOf(texts []string) []sdk.ID {
	ids := make([]sdk.ID, len(texts))
	for i, text := range texts {
		ids[i] = sdk.ID(text)
	}
	return ids
}

func getAll(ctx context.Context, k *sdk.Client, ids []sdk.ID, opts []sdk.GetOption) ([]sdk.GetResult, error) {
	var all []sdk.GetResult
	for len(ids) > 0 {
		n := min(len(ids), idsPerCallMax)
		results, err := k.GetMany(ctx, ids[:n], opts...)
		if err != nil {
			return all, err
		}
		all, ids = append(all, results...), ids[n:]
	}
	return all, nil
}

// printResults shows what is known of each id: tasks on stdout, and problems on
// stderr. Its error says only that there was a problem.
func (a *app) printResults(ids []string, results []sdk.GetResult, withPayload bool) error {
	array := arrayWriter{w: a.Stdout}
	var failed error
	for i := range results {
		if results[i].Err != nil {
			failed = errReported
			a.note("%s: %v", short(ids[i]), results[i].Err)
		}
		if err := a.printResult(&array, ids, i, &results[i], withPayload); err != nil {
			return err
		}
	}
	if a.json() && len(ids) > 1 && len(results) > 0 {
		return errors.Join(failed, array.end())
	}
	return failed
}

func (a *app) printResult(array *arrayWriter, ids []string, i int, r *sdk.GetResult, withPayload bool) error {
	if r.Err != nil {
		if a.json() && len(ids) > 1 {
			return array.add(missingObject{ID: ids[i], Error: r.Err.Error(), Reason: reasonOf(r.Err)})
		}
		return nil
	}
	o := objectOf(&r.Task)
	if withPayload {
		o = o.withPayload(r.Task.Payload)
	}
	switch {
	case a.json() && len(ids) > 1:
		return array.add(o)
	case a.json():
		return printJSON(a.Stdout, o)
	case i > 0:
		fmt.Fprintln(a.Stdout)
	}
	return printTask(a.Stdout, &o)
}

// short is an argument as it stands in a message: no id is that long, but anything may be passed for one.
func short(id string) string {
	const most = 100
	if len(id) <= most {
		return id
	}
	return strings.ToValidUTF8(id[:most], "") + "…"
}
