package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/sdk"
)

func (a *app) getCommand() *cobra.Command {
	var withPayload bool
	var by keyFlags
	c := &cobra.Command{
		Use:     "get ID… | --lambda L --key K",
		Aliases: []string{"show"},
		Short:   "Show tasks and their attempts",
		Long: `Shows tasks: state, times, lateness (first start − due time) and the latest attempts; of one task also the payload, if that
is a short line of text and you may read it. With -o json, one ID gives an object and several give an array. Exit 1 when there
is no task with an ID.

Every command takes the first characters of an ID for it, 10 or more, if no other ID begins so. Of more than 1,000,000 tasks
(8,000 with DynamoDB) only whole IDs are found.`,
		Example: `  kinesin get k1…
  kinesin get k1AaIqwjn-dD2V
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
		if len(ids) == 1 && a.output == formatText && hasShortPayload(&results[0]) {
			// Who may not read payloads, or cannot decode this one, sees its size.
			if read, err := k.GetMany(ctx, []sdk.ID{sdk.ID(ids[0])}, sdk.WithPayload()); err == nil && read[0].Err == nil {
				results = read
			}
		}
		return a.printTasks(over(k), ids, results, withPayload)
	})
}

// shortPayloadBytesMax is how many bytes of a payload are shown beside the other facts of a task.
const shortPayloadBytesMax = 200

// hasShortPayload reports whether a task has a short payload that was not read.
func hasShortPayload(r *sdk.GetResult) bool {
	return r.Err == nil && len(r.Task.Payload) == 0 && 0 < r.Task.PayloadBytes && r.Task.PayloadBytes <= shortPayloadBytesMax
}

// missingObject stands in arrays for an id without a task.
type missingObject struct {
	ID      string           `json:"id"`
	Problem *api.HTTPProblem `json:"problem"`
}

// printTasks prints tasks on stdout and errors on stderr. Its error says only that there was one.
func (a *app) printTasks(c *calls, ids []string, all []sdk.GetResult, withPayload bool) error {
	out := a.results(len(ids) > 1)
	for i := range all {
		t, err := c.Task(&all[i]), all[i].Err
		var o any = t
		switch {
		case err != nil && out.several:
			o = missingObject{ids[i], httpProblemOf(err)}
		case err != nil:
			o = nil
		}
		err = out.add(ids[i], err, o, func() error {
			if a.output == formatName {
				return a.printLine(t.GetId())
			}
			if i > 0 {
				fmt.Fprintln(a.Stdout)
			}
			return printTask(a.Stdout, t, withPayload)
		})
		if err != nil {
			return err
		}
	}
	return out.end()
}
