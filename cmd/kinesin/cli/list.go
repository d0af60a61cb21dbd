package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

const listLimitDefault = 100

func (a *app) listCommand() *cobra.Command {
	var q sdk.ListQuery
	c := &cobra.Command{
		Use:   "list [LAMBDA] [--state S] [--where FILTER] [--order due|-created|-ended] [--max-examined N] [--limit N]",
		Short: "List tasks",
		Long: fmt.Sprintf(`Lists the tasks of a lambda, or of all that you may read, in one state or in all. Ended tasks are listed until their retention is
over. docs/sets.md describes filters.

It lists live tasks by when they are due next, and then ended ones, the newest end first; with DynamoDB, or where tasks are very
many, as the store has them. --order due (live tasks alone), -created (the newest first) and -ended (ended ones alone) have their
order everywhere, at a price: for -created the server reads all tasks of the set, for -ended all ended ones, of dead letters only
those of the lambdas. It refuses to read more than --max-examined rows for that.

States: %v.
With -o json, an array of the objects that get prints.`, task.States()),
		Example: `  kinesin list greet
  kinesin list --where 'error~"timeout"' --order -ended
  kinesin list greet --state dead --limit 0 -o json | jq -r '.[].id'`,
		Args: optionalLambda, ValidArgsFunction: a.lambdas().complete(a),
	}
	f := c.Flags()
	f.StringVar(&q.Where, "where", "", whereUsage)
	f.Var(choiceValue{(*string)(&q.Order), []string{string(sdk.OrderDue), string(sdk.OrderNewest), string(sdk.OrderNewestEnded)}}, "order", "`ORDER`: due, -created or -ended; live tasks by due time and then ended ones, newest first, when not set")
	f.Int64Var(&q.MaxExamined, "max-examined", 0, "with --order -created or -ended, how many rows the server may read at most; 0 for 2000000")
	f.Var(choiceValue{(*string)(&q.State), stateNames()}, "state", "only tasks in this `STATE`")
	q.Limit = listLimitDefault
	f.Var(intValue{n: &q.Limit}, "limit", "how many tasks to list at most; 0 for all")
	return a.watching(c, func(ctx context.Context, k *sdk.Client, args []string) error {
		if err := checkFilter(q.Where); err != nil {
			return err
		}
		q.Lambda = first(args)
		return a.list(ctx, k, q)
	})
}

func stateNames() []string {
	names := make([]string, len(task.States()))
	for i, s := range task.States() {
		names[i] = s.String()
	}
	return names
}

// list prints while it reads, so that its memory is bounded whatever the number of tasks.
func (a *app) list(ctx context.Context, k *sdk.Client, q sdk.ListQuery) error {
	out := bufio.NewWriter(a.Stdout)
	row, end := listTable(out, q.Lambda == "", a.output == formatWide), func() error { return nil }
	if a.output == formatName {
		row = func(t *sdk.TaskInfo) error {
			_, err := fmt.Fprintln(out, t.ID)
			return err
		}
	}
	if a.json() {
		array := arrayWriter{w: out}
		row, end = func(t *sdk.TaskInfo) error { return array.add(objectOf(t)) }, array.end
	}
	n := 0
	for t, err := range k.List(ctx, q) {
		n++
		if n%1000 == 0 {
			a.line.say("%d tasks listed", n)
		}
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

// listTable returns a function that prints a task in a line, below a heading; with its lambda, if that is not
// the same for all, and with more columns if they are wanted.
func listTable(w io.Writer, withLambda, withMore bool) func(*sdk.TaskInfo) error {
	line := func(lambda, state, priority, due, started, late, attempt, created, ended, collection, key, id string) error {
		before, more := "", ""
		if withLambda {
			before = fmt.Sprintf("%-15s ", lambda)
		}
		if withMore {
			more = fmt.Sprintf("  %-24s %-24s %-12s %-12s", created, ended, collection, key)
		}
		_, err := fmt.Fprintf(w, "%s%-17s %-8s %-24s %-24s %13s %3s%s  %s\n", before, state, priority, due, started, late, attempt, more, id)
		return err
	}
	instant := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Format(listTime)
	}
	begun := false
	return func(t *sdk.TaskInfo) error {
		if !begun {
			begun = true
			if err := line("LAMBDA", "STATE", "PRIORITY", "DUE", "STARTED", "LATENESS", "ATT", "CREATED", "ENDED", "COLLECTION", "KEY", "ID"); err != nil {
				return err
			}
		}
		late := "-"
		if !t.Started.IsZero() {
			late = latenessText(t.Lateness())
		}
		return line(t.Lambda, t.State.String(), t.Priority, t.Due.Format(listTime), instant(t.Started), late, strconv.Itoa(t.Attempt),
			instant(t.Created), instant(t.Ended), dash(t.Collection), dash(t.Key), strings.TrimRight(string(t.ID)+"  "+tagsText(t.Tags), " "))
	}
}
