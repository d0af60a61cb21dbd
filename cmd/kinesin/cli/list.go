package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const listLimitDefault = 100

func (a *app) listCommand() *cobra.Command {
	var lambda, state string
	var limit int
	c := &cobra.Command{
		Use:   "list --lambda L [--state S] [--limit N]",
		Short: "List the tasks of a lambda",
		Long: fmt.Sprintf(`Lists tasks of a lambda, of one state or of all, ended ones too for as long as they are kept.

States: %v.
With -o json, an array of the same objects as get prints.`, task.States()),
		Example: `  kinesin list --lambda greet
  kinesin list --lambda greet --state dead --limit 0 -o json | jq -r '.[].id'`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&lambda, "lambda", "", "`NAME` of the lambda; required")
	f.StringVar(&state, "state", "", "only tasks in this `STATE`")
	f.IntVar(&limit, "limit", listLimitDefault, "most tasks to list, 0 for all")
	c.RunE = does(func(ctx context.Context, _ []string) error {
		q, err := listQuery(lambda, state, limit)
		if err != nil {
			return err
		}
		return a.withClient(func(k *sdk.Client) error { return a.list(ctx, k, q) }, sdk.WithTries(triesAtHand))
	})
	a.outputFlag(f)
	a.serverFlag(f)
	return c
}

func listQuery(lambda, state string, limit int) (sdk.ListQuery, error) {
	q := sdk.ListQuery{Lambda: lambda, Limit: limit}
	switch {
	case lambda == "":
		return q, usagef("--lambda is missing: it names the lambda whose tasks to list")
	case limit < 0:
		return q, usagef("--limit %d: want 0 (all) or more", limit)
	case state == "":
		return q, nil
	}
	s, err := task.ParseState(state)
	if err != nil {
		return q, usagef("--state: %v", err)
	}
	q.State = sdk.State(s.String())
	return q, nil
}

// list prints while it reads, so that its memory is bounded whatever the number of tasks.
func (a *app) list(ctx context.Context, k *sdk.Client, q sdk.ListQuery) error {
	out := bufio.NewWriter(a.Stdout)
	row, end := listTable(out), func() error { return nil }
	if a.json() {
		array := arrayWriter{w: out}
		row, end = func(t *sdk.TaskInfo) error { return array.add(objectOf(t)) }, array.end
	}
	for t, err := range k.List(ctx, q) {
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if err := row(&t); err != nil {
			return err
		}
	}
	return errors.Join(end(), out.Flush())
}

// listTime prints milliseconds in UTC.
const listTime = "2006-01-02T15:04:05.000Z07:00"

// listTable prints a task a line, below a heading if there is any.
func listTable(w io.Writer) func(*sdk.TaskInfo) error {
	const columns = "%-17s %-8s %-24s %-24s %13s %3s  %s\n"
	begun := false
	return func(t *sdk.TaskInfo) error {
		if !begun {
			begun = true
			fmt.Fprintf(w, columns, "STATE", "PRIORITY", "DUE", "STARTED", "LATENESS", "ATT", "ID")
		}
		started, late := "-", "-"
		if !t.Started.IsZero() {
			started, late = t.Started.Format(listTime), latenessText(t.Lateness())
		}
		_, err := fmt.Fprintf(w, columns, t.State, t.Priority, t.Due.Format(listTime), started, late, strconv.Itoa(t.Attempt), t.ID)
		return err
	}
}
