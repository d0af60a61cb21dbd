package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const listLimitDefault = 100

func (a *app) listCommand() *cobra.Command {
	var q sdk.ListQuery
	var state string
	c := &cobra.Command{
		Use:   "list --lambda L [--state S] [--limit N]",
		Short: "List the tasks of a lambda",
		Long: fmt.Sprintf(`Lists the tasks of a lambda, in one state or in all. Ended tasks are listed until their retention is over.

States: %v.
With -o json, an array of the objects that get prints.`, task.States()),
		Example: `  kinesin list --lambda greet
  kinesin list --lambda greet --state dead --limit 0 -o json | jq -r '.[].id'`,
		Args: cobra.NoArgs,
	}
	f := c.Flags()
	f.StringVar(&q.Lambda, "lambda", "", "`NAME` of the lambda; required")
	f.StringVar(&state, "state", "", "only tasks in this `STATE`")
	q.Limit = listLimitDefault
	f.Var(intValue{n: &q.Limit}, "limit", "how many tasks to list at most; 0 for all")
	return a.calling(c, func(ctx context.Context, k *sdk.Client, _ []string) error {
		switch {
		case q.Lambda == "":
			return usagef("--lambda is missing: it names the lambda whose tasks to list")
		case state != "":
			if _, err := task.ParseState(state); err != nil {
				return usagef("--state: %v", err)
			}
		}
		q.State = sdk.State(state)
		return a.list(ctx, k, q)
	})
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

// listTable returns a function that prints a task in a line, below a heading.
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
		_, err := fmt.Fprintf(w, columns, t.State, t.Priority, t.Due.Format(listTime), started, late, strconv.Itoa(t.Attempt), strings.TrimRight(string(t.ID)+"  "+tagsText(t.Tags), " "))
		return err
	}
}
